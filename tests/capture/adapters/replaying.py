"""Replays a kernel call from what its adapter says, in float64, and measures the difference."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.arrangement import from_names
from attnscope.calls.tolerance import largest_relative
from attnscope.capture.kernel import KernelCall


def operands(kernel: KernelCall) -> tuple[Tensor, Tensor, Tensor]:
    """Return canonical q, k and v."""
    q, k, v = (
        from_names(tuple(x.shape), kernel.axes).canonical(x.detach())
        for x in (kernel.q, kernel.k, kernel.v)
    )
    return q, k, v


def replayed(kernel: KernelCall) -> Tensor:
    """Return the output that follows from q, k, v and the recipe."""
    q, k, v = (x.double() for x in operands(kernel))
    recipe = kernel.recipe
    if kernel.scores is None:
        context = recipe.context(q, k, v)
    else:
        weights = recipe.normalise(kernel.scores(q, k))
        context = weights @ v.repeat_interleave(weights.shape[1] // v.shape[1], 1)
    return context if kernel.finish is None else kernel.finish(context.to(kernel.output.dtype))


def actual(kernel: KernelCall) -> Tensor:
    """Return the kernel's own output, canonical where it is the context."""
    output = kernel.output.detach()
    if kernel.finish is not None:
        return output
    return from_names(tuple(output.shape), kernel.output_axes or kernel.axes).canonical(output)


def error_of(kernel: KernelCall) -> float:
    """Return the largest relative difference of replayed and actual output."""
    with torch.no_grad():
        return largest_relative(replayed(kernel), actual(kernel))
