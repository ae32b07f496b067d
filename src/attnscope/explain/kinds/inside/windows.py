"""Sliding windows of another size, on other sides of the query, or where there should be none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from attnscope.axes import Visible
from attnscope.explain.kinds.inside.maskparts import MaskParts

if TYPE_CHECKING:
    from attnscope.explain.kinds.inside.evaluating import Inside, Key

__all__ = ["new_sizes", "other_windows"]


def new_sizes(inside: Inside, parts: MaskParts) -> list[int]:
    """Return window sizes to try: that at which the first row differs, read from the numbers."""
    if inside.hint is not None:
        theirs = MaskParts.of(inside.hint.mask, inside.sizes.queries, inside.sizes.keys)
        return [] if theirs.low is None else [(theirs.high or 0) - theirs.low + 1]
    first = _first_row(inside)
    if first is None:
        return []
    if parts.high is None:
        return [size for size in (inside.sizes.keys - first - 1, first, first + 1) if size > 0]
    return [max(first + parts.high, 1)]


def _first_row(inside: Inside) -> int | None:
    """Return the first query whose row differs, where the stage has rows by query."""
    scene = inside.scene
    if scene.actual.shape[-2:-1] != (inside.sizes.queries,) or not inside.reaches("scores"):
        return None
    gap = ~((scene.actual - scene.expected).abs() <= scene.limit)
    gap = gap & ~(scene.actual.isnan() & scene.expected.isnan())
    gap = gap & (scene.actual != scene.expected)
    rows = gap.any(-1).flatten(0, -2).any(0).nonzero()
    return int(rows[0, 0]) if len(rows) else None


def other_windows(inside: Inside, parts: MaskParts) -> Iterator[tuple[Key, str, Visible]]:
    """Iterate over windows of other sizes."""
    if parts.low is None:
        return
    high, low = parts.high, parts.low
    edge = high if high is not None else 0
    size = edge - low + 1
    sizes = [size + 1, size - 1, size * 2, size // 2, size + 2, size - 2]
    if inside.hint is not None:
        theirs = MaskParts.of(inside.hint.mask, inside.sizes.queries, inside.sizes.keys)
        if theirs.low is not None:
            sizes = [(theirs.high or 0) - theirs.low + 1]
    else:
        first = _first_row(inside)
        sizes += [] if first is None else [first + edge]
    had = f"where the reference has {size}"
    for other in dict.fromkeys(sizes):
        if other < 1:
            continue
        before = f"a window of {other} keys {had}"
        top = high if high is not None else other - 1
        seen = parts.moved(edge - other + 1, top)
        if not torch.equal(
            seen, parts.moved(None, high)
        ):  # else it is missing, not of another size
            yield "window", before, seen
    both = parts.moved(low, -low if high is not None else 0)
    sides = ("both sides", "the keys before") if high is not None else ("the keys before", "both")
    yield "window", f"a window of {size} over {sides[0]}, where the reference has {sides[1]}", both
    start = torch.zeros_like(parts.band(0, 0))
    start[..., 0] = True
    text = f"a window of {size} that keeps key 0 visible, which the reference does not"
    yield "window", text, parts.moved(low, high) | (start & parts.band(None, edge))
