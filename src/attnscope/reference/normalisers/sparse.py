"""Normalisers that give most keys the weight 0: sparsemax and entmax, each in closed form.

Both shift the scores so that the largest is 0. A key whose shifted score is below -1 (entmax:
half of it) has no weight in any case, because the largest alone reaches the sum 1 there; so all
such scores, -inf too, are moved up to that edge before sums are taken.
"""

from __future__ import annotations

import numpy as np

from attnscope.reference.axes import AnyFloat
from attnscope.reference.given import along

__all__ = ["entmax", "entmax_backward", "sparsemax", "sparsemax_backward"]


def sparsemax(scores: AnyFloat, axis: int = -1) -> AnyFloat:
    """Return max(s - τ, 0) with the τ for which it sums to 1; a row of -inf gives NaN.

    It is the point of the simplex that is nearest to s. Over the k largest scores τ is their
    (Σ s - 1) / k, with the largest k for which all of them exceed it.

    Source: Martins & Astudillo 2016, "From Softmax to Sparsemax", alg. 1.

    >>> sparsemax(np.array([1.0, 0.8, -1.0])).round(4)
    array([0.6, 0.4, 0. ])
    """
    (scores,) = along("taking sparsemax", axis, scores=scores)
    shifted, ordered, count = _ordered(scores, axis)
    thresholds = (ordered.cumsum(-1) - 1.0) / count
    return np.moveaxis(np.maximum(shifted - _chosen(ordered, thresholds), 0.0), -1, axis)


def sparsemax_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int = -1
) -> AnyFloat:
    """Return g less its mean, over the keys that have a weight; 0 elsewhere.

    Source: Martins & Astudillo 2016, eq. 14.

    >>> sparsemax_backward(np.zeros(3), np.array([0.6, 0.4, 0.0]), np.array([1.0, 0.0, 5.0]))
    array([ 0.5, -0.5,  0. ])
    """
    del scores
    doing = "taking the gradient of sparsemax"
    weights, gradient = along(doing, axis, weights=weights, gradient=gradient)
    return _centred(np.where(np.isnan(weights), np.nan, weights > 0), gradient, axis)


def entmax(scores: AnyFloat, axis: int = -1) -> AnyFloat:
    """Return max(s/2 - τ, 0)² with the τ for which it sums to 1: entmax with α = 1.5.

    Over the k largest halves z, with mean m and Σ (z - m)² = d:  τ = m - √((1 - d) / k).
    A row of -inf gives NaN.

    Source: Peters et al. 2019, "Sparse Sequence-to-Sequence Models", alg. 2.

    >>> entmax(np.array([0.0, 0.0, -9.0]))
    array([0.5, 0.5, 0. ])
    """
    (scores,) = along("taking entmax", axis, scores=scores)
    halves, ordered, count = _ordered(scores / 2.0, axis)
    mean = ordered.cumsum(-1) / count
    spread = np.square(ordered).cumsum(-1) - count * np.square(mean)
    thresholds = mean - np.sqrt(np.maximum(1.0 - spread, 0.0) / count)
    powers = np.square(np.maximum(halves - _chosen(ordered, thresholds), 0.0))
    return np.moveaxis(powers, -1, axis)


def entmax_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int = -1
) -> AnyFloat:
    """Return r · (g - Σ g·r / Σ r) with r = √w.

    Source: Peters et al. 2019, prop. 2 (there r = w^(2-α)).

    >>> entmax_backward(np.zeros(2), np.array([0.5, 0.5]), np.array([1.0, -1.0])).round(4)
    array([ 0.7071, -0.7071])
    """
    del scores
    doing = "taking the gradient of entmax"
    weights, gradient = along(doing, axis, weights=weights, gradient=gradient)
    return _centred(np.sqrt(weights), gradient, axis)


def _ordered(scores: AnyFloat, axis: int) -> tuple[AnyFloat, AnyFloat, AnyFloat]:
    """Return scores shifted and cut at -1, the same in falling order, and 1, 2, …; axis last."""
    last = np.moveaxis(scores, axis, -1)
    with np.errstate(invalid="ignore"):
        shifted = np.maximum(last - last.max(-1, keepdims=True, initial=-np.inf), -1.0)
    ordered = -np.sort(-shifted, axis=-1)
    return shifted, ordered, np.arange(1.0, last.shape[-1] + 1.0)


def _chosen(ordered: AnyFloat, thresholds: AnyFloat) -> AnyFloat:
    """Return the threshold of the largest k whose k-th score still exceeds it."""
    if not ordered.shape[-1]:
        return np.zeros((*ordered.shape[:-1], 1))
    support = (ordered > thresholds).sum(-1, keepdims=True)
    return np.take_along_axis(thresholds, np.maximum(support, 1) - 1, axis=-1)


def _centred(share: AnyFloat, gradient: AnyFloat, axis: int) -> AnyFloat:
    """Return share · (g - mean of g weighted by share)."""
    total = share.sum(axis, keepdims=True)
    mean = (share * gradient).sum(axis, keepdims=True) / np.where(total == 0, 1.0, total)
    return np.asarray(share * (gradient - mean))
