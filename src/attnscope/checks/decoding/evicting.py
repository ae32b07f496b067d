"""A cache that lets go of tokens in the middle on purpose: the first ones and the last ones stay.

Nobody loses the middle by accident: attention sinks, or a prompt that is kept for good, in front of
a window. The full pass, which has all tokens at once, then computes something else by design.
"""

from __future__ import annotations

from torch import Tensor

from attnscope.checks.decoding.matching import Stretch
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["kept_of_middle_let_go"]

_CLOSE = 1e-5
"""Relative to the largest entry: values of one token in two runs are equal but for rounding."""


def kept_of_middle_let_go(full: Side, step: Side, stretch: Stretch) -> tuple[int, int] | None:
    """Return how many of the first and of the last tokens a step still has; None: it has others.

    Told by the values of the first attention, which nothing before it can have changed.
    """
    if not full.located or not step.located:
        return None
    try:
        whole, part = (side.located[0].call.v.detach().double() for side in (full, step))
    except (AttnscopeError, RuntimeError):
        return None
    if whole.shape[:2] != part.shape[:2] or whole.shape[-1] != part.shape[-1]:
        return None
    at = _places(whole[:, :, : stretch.stop], part)
    if at is None or len(at) >= stretch.stop:
        return None
    first = next((n for n, place in enumerate(at) if place != n), len(at))
    last = len(at) - first
    if at[first:] != list(range(stretch.stop - last, stretch.stop)):
        return None
    return (first, last) if first > 0 and last > stretch.count else None


def _places(whole: Tensor, part: Tensor) -> list[int] | None:
    """Return which token of the full pass each key of a step is."""
    rows = [t.movedim(2, 0).flatten(1) for t in (whole, part)]
    limit = _CLOSE * float(rows[0].abs().max())
    same = (rows[1][:, None] - rows[0][None]).abs().amax(-1) <= limit
    return [int(row.int().argmax()) for row in same] if bool(same.any(1).all()) else None
