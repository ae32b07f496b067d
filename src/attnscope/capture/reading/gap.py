"""Tells a mask that is added to the scores from a bias, by the gap between their values.

A mask adds one value that is far below all others (-100 in Swin, -1e4, -1e9, the lowest number of
the type), so that a wide empty stretch lies between the two. A bias may reach as far down, but it
gets there gradually: ALiBi with slope 1/2 ends at -2,048 after 4,096 keys, in steps of 1/2.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["low_cutoff"]

FARTHEST_BIAS = 50.0
"""A key this far below the largest value has a weight under e⁻⁵⁰ = 2e-22, nothing beside 1."""

SURELY_HIDDEN = 1000.0
"""So far below, the low values may differ among each other by any amount: masks were summed."""

_RATIO = 4.0
_EXPONENTS = 1100  # of float64, subnormal numbers included, lie within ± this


def low_cutoff(values: Tensor) -> float | None:
    """Return the number below which an additive value hides its key, or None where none does.

    With t = largest value - value, sorted, a cluster of low values starts at t' after t when

    - t' >= 50, and the gap is wide beside the values above it: t' >= 4t;
    - and beside its own spread: t' - t >= 2 · (largest t - t'), or t' >= 1000.

    Since t' >= 4t leaves at least one power of two without values, only such places are looked
    at, and nothing is sorted. -inf and NaN take no part. Where even the largest value is below
    -1000, all of them hide.
    """
    finite = values.isfinite()
    if not bool(finite.any()):
        return None
    largest = values.masked_fill(~finite, float("-inf")).amax()
    if float(largest) <= -SURELY_HIDDEN:
        return float("inf")
    below = (largest.double() - values.double()).masked_fill_(~finite, 0.0)
    farthest = float(below.amax())
    if farthest < FARTHEST_BIAS:
        return None
    exponents = torch.frexp(below).exponent[below > 0] + _EXPONENTS
    present = torch.bincount(exponents, minlength=2 * _EXPONENTS).nonzero()[:, 0] - _EXPONENTS
    previous: int | None = None
    for exponent in present.tolist():
        if previous is None or exponent - previous > 1:
            cutoff = _accepted(below, 2.0 ** (exponent - 1), farthest)
            if cutoff is not None:
                return float(largest) - cutoff
        previous = exponent
    return None


def _accepted(below: Tensor, edge: float, farthest: float) -> float | None:
    """Return the middle of the gap around `edge`, or None where it sets no cluster apart."""
    low = below >= edge
    start = float(below.masked_fill(~low, float("inf")).amin())
    end = float(below.masked_fill(low, 0.0).amax())
    gap = start - end
    if start < FARTHEST_BIAS or start < _RATIO * end:
        return None
    if gap < 2 * (farthest - start) and start < SURELY_HIDDEN:
        return None
    return (start + end) / 2
