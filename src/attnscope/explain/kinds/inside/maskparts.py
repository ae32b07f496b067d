"""A mask taken apart: causal edge, window, padding, documents, so that one part can be changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnscope.axes import Visible
from attnscope.calls.mask import Mask

if TYPE_CHECKING:
    from attnscope.explain.kinds.inside.evaluating import Inside

__all__ = ["MaskPart", "MaskParts", "equal", "pairs", "parts_of"]


@dataclass(frozen=True, slots=True, eq=False)
class MaskPart:
    """One reason why a key is hidden; seen: True = may attend, as small as it is.

    name: "causal mask", "window", "padding mask", "document mask", "prefix mask" or "mask".
    """

    name: str
    seen: Visible


@dataclass(frozen=True, slots=True, eq=False)
class MaskParts:
    """A mask as the `and` of its parts.

    whole: (batch or 1, heads or 1, queries, keys). low, high: smallest and largest key - query
    that is visible, as far as a window and a causal edge say so; None: there is no such edge.
    """

    whole: Visible
    parts: tuple[MaskPart, ...]
    low: int | None
    high: int | None

    @classmethod
    def of(cls, mask: Mask, queries: int, keys: int) -> MaskParts:
        """Take a mask apart by the kinds that it is known to have."""
        whole = mask.dense(queries, keys)
        if bool(whole.all()):
            return cls(whole, (), None, None)
        low, high = _edges(mask, whole)
        parts: list[MaskPart] = []
        if "prefix" in mask.kinds:
            keys_seen = whole.any(-2, keepdim=True)
            parts.append(MaskPart("prefix mask", whole | ~keys_seen))
        elif high is not None:
            parts.append(MaskPart("causal mask", _offsets(whole) <= high))
        if low is not None:
            parts.append(MaskPart("window", _window(whole, low, high)))
        band = _joined(parts, whole)
        padding = whole.any(-2, keepdim=True) | ~band.any(-2, keepdim=True)
        if not bool(padding.all()):
            parts.append(MaskPart("padding mask", padding))
        parts += _rest(whole, parts, mask.kinds)
        return cls(whole, tuple(parts), low, high)

    def without(self, dropped: Iterable[MaskPart]) -> Visible:
        """Return the mask of all parts but some."""
        gone = {id(part) for part in dropped}
        return _joined([part for part in self.parts if id(part) not in gone], self.whole)

    def instead(self, part: MaskPart, seen: Visible) -> Visible:
        """Return the mask with `seen` in the place of one part."""
        return self.without([part]) & seen

    def part(self, name: str) -> MaskPart | None:
        """Return the part of that name, if there is one."""
        return next((part for part in self.parts if part.name == name), None)

    def band(self, low: int | None, high: int | None) -> Visible:
        """Return low <= key - query <= high, (1, 1, queries, keys)."""
        offsets = _offsets(self.whole)
        seen = torch.ones_like(offsets, dtype=torch.bool)
        if low is not None:
            seen = seen & (offsets >= low)
        return seen if high is None else seen & (offsets <= high)

    def moved(self, low: int | None, high: int | None) -> Visible:
        """Return the mask with other edges in the place of its causal one and its window's."""
        banded = [part for part in self.parts if part.name in {"causal mask", "window"}]
        return self.without(banded) & self.band(low, high)


def parts_of(inside: Inside) -> MaskParts:
    """Return the reference's mask, taken apart."""
    return MaskParts.of(inside.recipe.mask, inside.sizes.queries, inside.sizes.keys)


def equal(a: Visible, b: Visible) -> bool:
    """Return whether two masks that broadcast to each other show the same pairs."""
    return bool((a == b).all())


def pairs(seen: Visible, like: Visible) -> tuple[int, int]:
    """Return how many (query, key) pairs are visible and how many there are, as wide as `like`."""
    shape = torch.broadcast_shapes(seen.shape, like.shape)
    return int(seen.expand(shape).count_nonzero()), like.expand(shape).numel()


def _offsets(whole: Visible) -> Tensor:
    """Return key - query, (1, 1, queries, keys)."""
    queries, keys = whole.shape[-2:]
    place = torch.arange(max(queries, keys), device=whole.device)
    return (place[:keys] - place[:queries, None])[None, None]


def _edges(mask: Mask, whole: Visible) -> tuple[int | None, int | None]:
    """Return the lowest and highest visible key - query where window and causal edge set them."""
    queries, keys = whole.shape[-2:]
    seen = _offsets(whole)[whole.any(0, keepdim=True).any(1, keepdim=True)]
    if not seen.numel():
        return None, None
    causal = {"causal", "causal-bottom-right", "prefix"} & mask.kinds or mask.causal is not None
    high = int(seen.max()) if causal else None
    if mask.causal is not None:
        high = 0 if mask.causal == "top-left" else keys - queries
    if "window" not in mask.kinds and mask.window is None:
        return None, high
    low = int(seen.min())
    if mask.window is not None:
        low = 1 - mask.window + (high or 0)
    return low, high


def _window(whole: Visible, low: int, high: int | None) -> Visible:
    """Return what a window shows: below a causal edge one-sided, without one on both sides."""
    offsets = _offsets(whole)
    return offsets >= low if high is not None else offsets.abs() <= -low


def _joined(parts: Iterable[MaskPart], like: Visible) -> Visible:
    seen = torch.ones(1, 1, *like.shape[-2:], dtype=torch.bool, device=like.device)
    for part in parts:
        seen = seen & part.seen
    return seen


def _rest(whole: Visible, parts: list[MaskPart], kinds: frozenset[str]) -> list[MaskPart]:
    """Return what the parts so far don't say: documents, rows that see nothing, anything else."""
    found: list[MaskPart] = []
    queries, keys = whole.shape[-2:]
    if "documents" in kinds and queries == keys:
        keys_seen = whole.any(-2, keepdim=True)
        both = keys_seen & keys_seen.mT
        found.append(MaskPart("document mask", whole | whole.mT | ~both))
    if not torch.equal(*_alike(_joined([*parts, *found], whole), whole)):
        rows = whole.any(-1, keepdim=True)
        found.append(MaskPart("mask of whole queries", rows))
    if not torch.equal(*_alike(_joined([*parts, *found], whole), whole)):
        found[-1] = MaskPart("mask", whole)
    return found


def _alike(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    shape = torch.broadcast_shapes(a.shape, b.shape)
    return a.expand(shape), b.expand(shape)
