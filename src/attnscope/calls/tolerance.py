"""How far two computations of one value may differ: the one place of tolerances.

Every bound follows from the unit roundoff `u` of a type (half the distance from 1 to the next
number) and from how many roundings a value went through. None is fitted to a test.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

__all__ = ["largest_relative", "replay", "rounding", "unit_roundoff"]

_LARGEST_SCORE = 32.0
_CERTAINTY = 4.0
_TINY = 1e-30


def unit_roundoff(dtype: torch.dtype) -> float:
    """Return the largest relative error of one rounding to nearest: 2⁻²⁴ for float32."""
    return float(torch.finfo(dtype).eps) / 2


def rounding(dtype: torch.dtype, steps: int = 8) -> float:
    """Return the relative bound of `steps` roundings one after the other, `steps · u`.

    The default of 8 covers an elementwise chain: product, scale, division, tanh (2), product,
    sum with the bias, cast.
    """
    return steps * unit_roundoff(dtype)


def replay(dtype: torch.dtype, keys: int, head_dim: int) -> float:
    """Return the bound for a fused kernel's context against the same call in float64.

    With `u` the unit roundoff of `dtype` and `a` that of the accumulator (float32 at least; half
    types are summed in float32), errors of random sign grow with the root of their number
    (Higham & Mary 2019, "A new approach to probabilistic rounding error analysis"):

    - a score sums head_dim products, and is at most 32 large:  δ = √head_dim · a · 32
      (beyond that the bound is the caller's to widen; trained models stay well below);
    - a weight changes by e^δ above and below the fraction bar:  2δ, and its row sum adds √keys · a;
    - weights are rounded to `dtype` before they meet v:  u;
    - the context sums keys products, √keys · a, and is rounded once:  u.

    Together `4 · (64 · √head_dim · a + 2 · √keys · a + 2u)`, where 4 standard deviations leave
    one entry in 16,000 outside. It bounds `largest_relative`, relative to the largest entry.

    float32, 128 keys, head_dim 64: 1.3e-4; bfloat16: 3.1e-2; float64: 2.4e-13.
    """
    u = unit_roundoff(dtype)
    accumulator = min(u, unit_roundoff(torch.float32))
    scores = 2 * _LARGEST_SCORE * sqrt(head_dim) * accumulator
    sums = 2 * sqrt(keys) * accumulator
    return _CERTAINTY * (scores + sums + 2 * u)


def largest_relative(a: Tensor, b: Tensor) -> float:
    """Return `max |a - b| / max |b|`: how far `a` is from `b`, relative to b's largest entry.

    NaN equals NaN and an infinity equals itself; any other meeting of a non-finite value with
    another value is infinitely far. Shapes must be equal: otherwise, too, the answer is infinity.
    Exactly 0.0 if and only if all values are equal (`-0.0` equals `0.0`).
    """
    if a.shape != b.shape:
        return float("inf")
    if a.numel() == 0:
        return 0.0
    if a.dtype == b.dtype and torch.equal(a, b):
        return 0.0
    exact = torch.float64 if not (a.is_complex() or b.is_complex()) else torch.complex128
    a, b = a.detach().to(exact), b.detach().to(exact)
    same = (a == b) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    finite = a.isfinite() & b.isfinite()
    if not bool((finite | same).all()):
        return float("inf")
    scale = b.abs()[finite].max()
    gap = (a - b).abs()[finite].max()
    return float(gap / scale.clamp_min(_TINY))
