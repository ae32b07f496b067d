"""What a mask is, and how two of them become one.

A mask is asked with the places of queries and keys in their sequence, counted from 0. With a cache
the queries start where the cache ends, so that one rule serves the full pass and each step of
decoding. `&` keeps what both allow, `|` what either allows.

Where padding stands among the tokens, a place is not how many tokens came before. A mask that knows
which tokens are real says so by `counted`, and masks that count go by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Bool, Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.kinds import described

__all__ = ["Both", "Counted", "Either", "Mask", "Places", "Visible", "holds"]

Places: TypeAlias = Int[Tensor, " places"]
"""Places in a sequence, counted from 0."""

Counted: TypeAlias = Int[Tensor, "batch all"]
"""For each place how many real tokens stand before it."""

Visible: TypeAlias = Bool[Tensor, "#batch #heads #queries #keys"]
"""True = may attend."""


class Mask:
    """Who may attend to whom; the base of all masks.

    reach: how many keys, its own included, a query looks back at most; None: no limit. A cache
    need not keep more than that. counted: how many real tokens stand before each place, where the
    mask knows; None: it doesn't.
    """

    reach: int | None = None
    counted: Counted | None = None

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return who may attend: True = may, broadcastable to (batch, heads, queries, keys).

        Args:
            queries: their places in the sequence.
            keys: the same for the keys.
        """
        raise NotImplementedError

    def among(self, queries: Places, keys: Places, counted: Counted) -> Visible:
        """Return the same where padding does not count: for masks that count tokens.

        Args:
            queries: as for `visible`.
            keys: as for `visible`.
            counted: of all places so far.
        """
        del counted
        return self.visible(queries, keys)

    def __and__(self, other: Mask) -> Mask:
        """Return the mask that shows what both show."""
        return Both(self, _mask(other, "&"))

    def __or__(self, other: Mask) -> Mask:
        """Return the mask that shows what either shows."""
        return Either(self, _mask(other, "|"))

    def __rand__(self, other: object) -> Mask:
        """Refuse what is no mask on the left."""
        return _mask(other, "&")

    def __ror__(self, other: object) -> Mask:
        """Refuse what is no mask on the left."""
        return _mask(other, "|")


def _mask(other: object, sign: str) -> Mask:
    if isinstance(other, Mask):
        return other
    raise InputError(
        f"joining two masks by {sign}",
        described(other),
        "join masks, such as Causal() & Padding(real): a tensor goes into Padding or Documents",
    )


@dataclass(frozen=True)
class Pair(Mask):
    """Two masks that were joined."""

    left: Mask
    right: Mask

    @property
    def counted(self) -> Counted | None:  # type: ignore[override]  # a single mask has a constant
        """That of the one which knows."""
        return self.right.counted if self.left.counted is None else self.left.counted


@dataclass(frozen=True)
class Both(Pair):
    """What both show."""

    @property
    def reach(self) -> int | None:  # type: ignore[override]  # a single mask has a constant
        """The nearer of the two."""
        reaches = [mask.reach for mask in (self.left, self.right) if mask.reach is not None]
        return min(reaches, default=None)

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return what both show."""
        return self.left.visible(queries, keys) & self.right.visible(queries, keys)

    def among(self, queries: Places, keys: Places, counted: Counted) -> Visible:
        """Return what both show, where padding does not count."""
        left = self.left.among(queries, keys, counted)
        return left & self.right.among(queries, keys, counted)


@dataclass(frozen=True)
class Either(Pair):
    """What either shows."""

    @property
    def reach(self) -> int | None:  # type: ignore[override]  # a single mask has a constant
        """The farther of the two."""
        if self.left.reach is None or self.right.reach is None:
            return None
        return max(self.left.reach, self.right.reach)

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return what either shows."""
        return self.left.visible(queries, keys) | self.right.visible(queries, keys)

    def among(self, queries: Places, keys: Places, counted: Counted) -> Visible:
        """Return what either shows, where padding does not count."""
        left = self.left.among(queries, keys, counted)
        return left | self.right.among(queries, keys, counted)


def holds(mask: Mask, kind: type[Mask]) -> bool:
    """Return whether a mask is of a kind, or one of those that it was joined from."""
    if isinstance(mask, Pair):
        return holds(mask.left, kind) or holds(mask.right, kind)
    return isinstance(mask, kind)
