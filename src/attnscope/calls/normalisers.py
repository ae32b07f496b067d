"""The functions that make weights of scores, by name, each along one axis.

All map -inf (a hidden key) to the weight 0. The table is the one list of names that a recipe may
carry; what is not in it can't be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import torch
from torch import Tensor

__all__ = ["AXES", "NORMALISERS"]

AXES = MappingProxyType({"keys": -1, "queries": -2, "heads": -3, "batch": -4})
"""Axis of (batch, heads, queries, keys) by name."""

_BISECTIONS = 60  # halvings of an interval of width 1: below the spacing of float64


def softmax(scores: Tensor, dim: int) -> Tensor:
    """Return exp(s) / Σ exp(s); a row of -inf gives NaN."""
    return scores.softmax(dim)


def softmax_off_by_one(scores: Tensor, dim: int) -> Tensor:
    """Return exp(s) / (1 + Σ exp(s)): one more score of 0 that has no value."""
    shift = scores.amax(dim, keepdim=True).clamp_min(0)
    powers = (scores - shift).exp()
    return powers / ((-shift).exp() + powers.sum(dim, keepdim=True))


def sigmoid(scores: Tensor, dim: int) -> Tensor:
    """Return 1 / (1 + exp(-s)), each key for itself."""
    del dim
    return scores.sigmoid()


def relu(scores: Tensor, dim: int) -> Tensor:
    """Return max(s, 0), each key for itself."""
    del dim
    return scores.relu()


def relu_squared(scores: Tensor, dim: int) -> Tensor:
    """Return max(s, 0)², each key for itself."""
    del dim
    return scores.relu().square()


def relu_normalised(scores: Tensor, dim: int) -> Tensor:
    """Return max(s, 0) / Σ max(s, 0); a row without a positive score gives NaN."""
    positive = scores.relu()
    return positive / positive.sum(dim, keepdim=True)


def exp(scores: Tensor, dim: int) -> Tensor:
    """Raise e to the scores, and divide by nothing."""
    del dim
    return scores.exp()


def exp_minus_max(scores: Tensor, dim: int) -> Tensor:
    """Return exp(s - max s): the numerator of a softmax."""
    return (scores - scores.amax(dim, keepdim=True)).exp()


def identity(scores: Tensor, dim: int) -> Tensor:
    """Return s, and 0 where it is -inf: linear attention."""
    del dim
    return scores.masked_fill(scores == float("-inf"), 0)


def tanh(scores: Tensor, dim: int) -> Tensor:
    """Take the hyperbolic tangent of each score, and 0 where it is -inf."""
    del dim
    return scores.tanh().masked_fill(scores == float("-inf"), 0)


def sparsemax(scores: Tensor, dim: int) -> Tensor:
    """Return the point of the simplex that is nearest to s (Martins & Astudillo 2016, alg. 1)."""
    shifted = scores - scores.amax(dim, keepdim=True)
    ordered = shifted.sort(dim, descending=True).values.movedim(dim, -1)
    sums = torch.where(ordered.isneginf(), 0, ordered).cumsum(-1)
    rank = torch.arange(1, ordered.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    support = (1 + rank * ordered > sums).sum(-1, keepdim=True).clamp_min(1)
    threshold = (sums.gather(-1, support - 1) - 1) / support
    return (shifted - threshold.movedim(-1, dim)).clamp_min(0)


def entmax(scores: Tensor, dim: int) -> Tensor:
    """Return entmax with α = 1.5, [s/2 - τ]²₊ with τ such that it sums to 1 (Peters et al. 2019).

    τ is found by bisection between max - 1, where one key alone has the weight 1, and max.
    """
    half = scores / 2
    high = half.amax(dim, keepdim=True)
    low = high - 1
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = (half - middle).clamp_min(0).square().sum(dim, keepdim=True) >= 1
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    powers = (half - low).clamp_min(0).square()
    return powers / powers.sum(dim, keepdim=True)


NORMALISERS: MappingProxyType[str, Callable[[Tensor, int], Tensor]] = MappingProxyType(
    {
        "softmax": softmax,
        "softmax-off-by-one": softmax_off_by_one,
        "sigmoid": sigmoid,
        "relu": relu,
        "relu-squared": relu_squared,
        "relu-normalised": relu_normalised,
        "sparsemax": sparsemax,
        "entmax": entmax,
        "exp": exp,
        "exp-minus-max": exp_minus_max,
        "tanh": tanh,
        "identity": identity,
    }
)
"""From the name in a recipe to the function of (scores, axis); "entmax" is that with α = 1.5."""
