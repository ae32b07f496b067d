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
        seen, before = _seen(step, -1), _seen(step, -stretch.count)
    except (AttnscopeError, RuntimeError, IndexError):
        return None
    if whole.shape[:2] != part.shape[:2] or whole.shape[-1] != part.shape[-1]:
        return None
    if len(before) <= stretch.count or not bool(before[-stretch.count - 1]):
        return None
    if not bool(every.all()):
        return None
    same = _same(part[:, :, seen], whole[:, :, : stretch.stop])
    count = len(same)
    if count >= stretch.stop:
        return None
    last = _run(same.diagonal(stretch.stop - count).flip(0))
    first = count - last
    by_design = first > 0 and last > 1 and _run(same.diagonal()) >= first
    return (first, last) if by_design else None


def _seen(side: Side, query: int) -> Tensor:
    """Return True = seen by a query of the first call, (keys,)."""
    return side.located[0].call.weights()[..., query, :].flatten(0, -2).ne(0).any(0)


def _same(part: Tensor, whole: Tensor) -> Tensor:
    """Return which key of a step may be which token of the full pass, (keys, tokens)."""
    ours, theirs = (t.movedim(2, 0).flatten(1) for t in (part, whole))
    limit = _CLOSE * float(theirs.abs().max())
    return (ours[:, None] - theirs[None]).abs().amax(-1) <= limit


def _run(flags: Tensor) -> int:
    """Return how many are True before the first that isn't."""
    return int(flags.int().cumprod(0).sum())
