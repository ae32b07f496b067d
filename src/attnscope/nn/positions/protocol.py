"""The two places where attention can learn of positions; the base of all that do."""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Int
from torch import Tensor, nn

from attnscope.axes import Bias, Key, Query
from attnscope.errors import InputError

__all__ = ["Places", "Positions", "distances", "whole_distances"]

Places: TypeAlias = Int[Tensor, " places"] | Int[Tensor, "batch places"]
"""Positions of tokens: the same for all samples, or of each."""


class Positions(nn.Module):
    """Positions that attention doesn't see; the base of those that it does.

    A kind of position overrides `turn`, `bias`, or both; and `require` where it doesn't fit all
    sizes.
    """

    def require(self, heads: int, head_dim: int) -> None:
        """Refuse heads of a number or width that these positions were not made for.

        Raises:
            InputError: of another size.
        """
        del heads, head_dim

    def turn(self, q: Query, k: Key, queries: Places, keys: Places) -> tuple[Query, Key]:
        """Return q and k as they meet each other, each knowing its own position.

        Args:
            q: (batch, heads, queries, head_dim).
            k: (batch, kv_heads, keys, head_dim).
            queries: positions of the queries.
            keys: positions of the keys.
        """
        del queries, keys
        return q, k

    def bias(self, q: Query, queries: Places, keys: Places) -> Bias | None:
        """Return what is added to the scores, or None.

        Args:
            q: (batch, heads, queries, head_dim), turned and scaled as it meets k.
            queries: positions of the queries.
            keys: positions of all keys, those in a cache included.
        """
        del q, queries, keys
        return None


def whole_distances(queries: Places, keys: Places) -> Int[Tensor, "#batch 1 queries keys"]:
    """Return `distances`, which have to be whole numbers: each has a vector or number of its own.

    Raises:
        InputError: positions with a fraction.
    """
    for positions in (queries, keys):
        if positions.is_floating_point():
            raise InputError(
                "looking up a distance",
                f"positions {tuple(positions.shape)} of {positions.dtype}",
                "give whole numbers, or positions that turn: Rotary()",
            )
    return distances(queries, keys)


def distances(queries: Places, keys: Places) -> Int[Tensor, "#batch 1 queries keys"]:
    """Return key - query for each pair: negative for keys that came earlier."""
    difference = keys[..., None, :] - queries[..., :, None]
    return difference[None, None] if difference.dim() == 2 else difference[:, None]
