"""From a changed context to the stages behind the attention: its output, the model's own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import torch
from torch import Tensor

from attnscope.axes import Context
from attnscope.explain.part import Part

__all__ = ["onward"]

_NEAR = 1e-3
"""How far a given value may be from the context, relative to its largest entry, and still be it."""


def onward(part: Part, context: Context) -> Callable[[Tensor], Tensor] | None:
    """Return what makes the stage of `part` from any context; None: none of its values is one.

    context: the one from which the part was recorded. The value that holds it is found by its
    numbers, in whatever order of axes the model keeps it.
    """
    for index, given in part.given.items():
        order = _order(context, given)
        if order is not None:
            return _runner(part, index, order, given.shape)
    return None


def _runner(
    part: Part, index: int, order: tuple[int, ...], shape: torch.Size
) -> Callable[[Tensor], Tensor]:
    def run(context: Tensor) -> Tensor:
        return part.run(given={index: context.permute(order).reshape(shape)})

    return run


def _order(context: Tensor, given: Tensor) -> tuple[int, ...] | None:
    """Return the order of (batch, heads, queries, value_dim) in which `given` is the context."""
    if given.numel() != context.numel() or not given.is_floating_point() or not given.numel():
        return None
    flat = given.double().flatten()
    slack = _NEAR * float(context.nan_to_num(0.0, 0.0, 0.0).abs().max())
    for order in permutations(range(context.dim())):
        other = context.permute(order).flatten()
        if torch.allclose(other, flat, rtol=0.0, atol=slack, equal_nan=True):
            return order
    return None
