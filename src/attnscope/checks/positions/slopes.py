"""Linear biases (ALiBi): whether they punish distance, and by which slopes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.checks.course import Course

__all__ = ["SlopeFault", "bias_operations", "fault_of_slopes", "slopes_of"]

_WHOLE = 1e-2
"""Distance of an exponent from a whole number that is rounding."""

_STRAIGHT = 1e-3
"""Relative distance of a bias from a straight line that is rounding."""


@dataclass(frozen=True, slots=True)
class SlopeFault:
    """kind: "rewards", "start" or "scaled".

    slopes: of the bias against the key's place, one a head; expected: those of the series.
    """

    kind: str
    text: str
    slopes: tuple[float, ...]
    expected: tuple[float, ...] = ()


def slopes_of(call: Call) -> Tensor | None:
    """Return how the bias of each head grows with the key's place; None: it is no line."""
    bias = call.recipe.bias
    if bias is None or bias.requires_grad or bias.dim() != 4 or call.keys < 4 or call.heads < 2:
        return None
    row = bias[0, :, -1].detach().double()
    if row.shape != (call.heads, call.keys) or not bool(row.isfinite().all()):
        return None
    at = torch.arange(call.keys, dtype=torch.float64)
    at = at - at.mean()
    slopes = (row * at).sum(-1) / at.square().sum()
    off = (row - row.mean(-1, keepdim=True) - slopes[:, None] * at).abs().amax(-1)
    straight = bool((off <= _STRAIGHT * slopes.abs() * call.keys).all())
    return slopes if straight and bool((slopes != 0).all()) else None


def fault_of_slopes(slopes: Tensor, scale: object = None) -> SlopeFault | None:
    """Return what is wrong with the slopes of a fixed linear bias; None: nothing, or others.

    scale: of the scores that they are added to.
    Source: Press et al., Train Short, Test Long (2022): 2^(−8(i+1)/heads), i from 0.
    """
    heads = len(slopes)
    found = tuple(float(s) for s in slopes)
    rate = 2 ** (-8 / heads)
    right = torch.tensor([rate ** (i + 1) for i in range(heads)], dtype=torch.float64)
    if not _is_geometric(slopes.abs()):
        return _scaled(slopes, right, scale)
    if bool((slopes < 0).all()):
        return SlopeFault(
            "rewards",
            f"the bias grows with distance: for the last query it changes by {found[0]:.3g} to "
            f"{found[-1]:.3g} from each key to the next one, so that the farthest key is favoured "
            "in every head",
            found,
            tuple(-s for s in found),
        )
    own = slopes.sort(descending=True).values
    for steps in (-1, 1):
        if torch.allclose(own, right * rate**steps, rtol=1e-3):
            return SlopeFault(
                "start",
                f"the slopes are 2^(−8i/{heads}) from i = {1 + steps} on ({float(own[0]):.4g} … "
                f"{float(own[-1]):.4g}), where the series starts at i = 1 ({float(right[0]):.4g} "
                f"… {float(right[-1]):.4g})",
                found,
                tuple(float(r) for r in right),
            )
    return None


def _scaled(slopes: Tensor, right: Tensor, scale: object) -> SlopeFault | None:
    """Return that the bias was scaled with the scores, where that very factor says so."""
    if not isinstance(scale, int | float) or scale == 1 or bool((slopes < 0).any()):
        return None
    own = slopes.sort(descending=True).values
    if not torch.allclose(own, right * abs(scale), rtol=1e-3):
        return None
    return SlopeFault(
        "scaled",
        f"the slopes are those of ALiBi times {abs(scale):.4g}, the scale of the scores: the bias "
        "was added before the scores were scaled, and is weaker by that factor",
        tuple(float(s) for s in slopes),
        tuple(float(r) for r in right),
    )


def _is_geometric(sizes: Tensor) -> bool:
    """Return whether slopes are powers of 2^(−8/m), m the heads or a power of two beside them."""
    heads = len(sizes)
    around = {heads, 2 ** math.floor(math.log2(heads)), 2 ** math.ceil(math.log2(heads))}
    exponents = -sizes.log2()
    for size in around:
        units = exponents * size / 8
        if float((units - units.round()).abs().max()) < _WHOLE and len(sizes.unique()) == heads:
            return True
    return False


def bias_operations(course: Course) -> tuple[Operation | None, Operation | None]:
    """Return the operation that adds the bias, and the one that makes its slopes (a power)."""
    sums = [op for op in course.hiding if op.name.startswith(("add", "sub"))]
    sums += [op for op in course.main if op.name == "baddbmm" and course.joined(op)]
    powers = [op for op in course.aside if "pow" in op.name or op.name in {"exp", "exp2"}]
    return (sums[0] if sums else None), (powers[0] if powers else None)
