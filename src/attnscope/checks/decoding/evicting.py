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
    """Return how many of the first and of the last tokens a step still sees; None: it sees others.

    Told by the values of the first attention, which nothing before it can have changed, and by
    what the step's last query sees of them; in the full pass it sees them all. Its first query has
    to see the token before it: else what came before was lost.
    """
    if not full.located or not step.located:
        return None
    try:
        whole, part = (side.located[0].call.v.detach().double() for side in (full, step))
        every = _seen(full, stretch.stop - 1)[: stretch.stop]
        seen = _seen(step, -1)
    except (AttnscopeError, RuntimeError, IndexError):
        return None
    if whole.shape[:2] != part.shape[:2] or whole.shape[-1] != part.shape[-1]:
        return None
    own = whole[:, :, : stretch.stop]
    at = _places(own, part[:, :, seen])
    if at is None or len(at) >= stretch.stop or not bool(every.all()):
        return None
    first = next((n for n, place in enumerate(at) if place != n), len(at))
    last = len(at) - first
    if at[first:] != list(range(stretch.stop - last, stretch.stop)):
        return None
    before = _places(own, part[:, :, _seen(step, -stretch.count)]) or []
    by_design = first > 0 and last > 1 and stretch.start - 1 in before
    return (first, last) if by_design else None


def _seen(side: Side, query: int) -> Tensor:
    """Return True = seen by a query of the first call, (keys,)."""
    return side.located[0].call.weights()[..., query, :].flatten(0, -2).ne(0).any(0)


def _places(whole: Tensor, part: Tensor) -> list[int] | None:
    """Return which token of the full pass each key of a step is."""
    rows = [t.movedim(2, 0).flatten(1) for t in (whole, part)]
    limit = _CLOSE * float(rows[0].abs().max())
    same = (rows[1][:, None] - rows[0][None]).abs().amax(-1) <= limit
    return [int(row.int().argmax()) for row in same] if bool(same.any(1).all()) else None
