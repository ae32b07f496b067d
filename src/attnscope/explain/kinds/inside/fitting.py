"""Fits one number, or one a head, so that a changed attention gives the candidate's stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnscope.errors import AttnscopeError
from attnscope.explain.kinds.inside.course import Course
from attnscope.explain.kinds.inside.evaluating import Inside

__all__ = ["fitted"]

_STEPS = 10
_PATIENCE = 3
_SMALL = 1e-6
"""Step of the derivative, relative: half the digits of float64 remain."""

_CONVERGED = 1e-13
"""Relative step below which a fit in float64 moves no more."""


def fitted(
    inside: Inside,
    make: Callable[[Tensor], Course],
    starts: Sequence[float],
    *,
    by_head: bool = False,
) -> Tensor | None:
    """Return x (1, heads or 1, 1, 1) with which `make(x)` gives the stage; None: there is none.

    Gauss-Newton from the best of `starts`, with the derivative by finite differences:
    x ← x - Σ J r / Σ J², over the entries (of the head) that are finite on both sides. Heads don't
    depend on each other and are fitted side by side. It is given up where three steps don't bring
    the residual below a fifth of that at the start.
    """
    if not inside.fits or not inside.reaches("scores"):
        return None
    heads = inside.sizes.heads
    actual = inside.scene.actual
    split = by_head and actual.dim() == len("bhqk") and actual.shape[1] == heads
    count = heads if split else 1

    def residual(x: Tensor) -> Tensor:
        gap = inside.at(make(x)) - actual
        return torch.where(gap.isfinite(), gap, 0.0)

    def summed(products: Tensor) -> Tensor:
        if not split:
            return products.sum().reshape(1, 1, 1, 1)
        return products.sum((0, 2, 3)).reshape(1, heads, 1, 1)

    try:
        return _descend(residual, summed, _best(residual, summed, starts, count, actual))
    except (AttnscopeError, RuntimeError, IndexError, ValueError):
        return None  # the recipe can't be evaluated, or gives another shape


def _best(
    residual: Callable[[Tensor], Tensor],
    summed: Callable[[Tensor], Tensor],
    starts: Sequence[float],
    count: int,
    like: Tensor,
) -> Tensor:
    tried = [like.new_full((1, count, 1, 1), start, dtype=torch.float64) for start in starts]
    costs = torch.stack([summed(residual(x).square()) for x in tried])
    return torch.stack(tried).gather(0, costs.argmin(0, keepdim=True))[0]


def _descend(
    residual: Callable[[Tensor], Tensor], summed: Callable[[Tensor], Tensor], x: Tensor
) -> Tensor | None:
    first = None
    for step in range(_STEPS):
        left = residual(x)
        cost = float(left.square().sum())
        first = cost if first is None else first
        if step >= _PATIENCE and cost > first / 30:
            return None
        small = _SMALL * x.abs().clamp_min(_SMALL)
        slope = (residual(x + small) - left) / small
        change = summed(slope * left) / summed(slope.square()).clamp_min(1e-300)
        reach = x.abs().clamp_min(_SMALL) * 0.75
        change = change.clamp(-reach, reach)
        x = x - change
        if bool((change.abs() <= _CONVERGED * x.abs()).all()):
            break
    return x
