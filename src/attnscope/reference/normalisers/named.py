"""The functions that make weights of scores, and the backward of each, along one axis.

Every one of them gives a hidden key (a score of -inf) the weight 0. A backward takes the scores,
the weights that followed from them and a gradient of the weights, and returns that of the scores.
Where a function has a corner (``max(s, 0)`` at 0) the gradient is that from below, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from attnscope.reference.axes import AnyFloat
from attnscope.reference.given import along, choice
from attnscope.reference.normalisers import sparse

__all__ = [
    "NORMALISERS",
    "Normaliser",
    "logsumexp",
    "normaliser_of",
    "softmax",
    "softmax_backward",
    "softmax_off_by_one",
]

Forward: TypeAlias = Callable[[AnyFloat, int], AnyFloat]
Backward: TypeAlias = Callable[[AnyFloat, AnyFloat, AnyFloat, int], AnyFloat]


@dataclass(frozen=True, slots=True)
class Normaliser:
    """A function that makes weights of scores, with its backward.

    name: as in the recipe of a call. forward: from (scores, axis) to weights.
    backward: from (scores, weights, gradient of the weights, axis) to the gradient of the scores.

    >>> half = NORMALISERS["relu"].times(0.5)
    >>> half.forward(np.array([2.0, -1.0]), -1)
    array([1., 0.])
    """

    name: str
    forward: Forward
    backward: Backward

    def times(self, factor: float) -> Normaliser:
        """Return this normaliser with its weights multiplied by a number, such as 1/keys.

        Source: Wortsman et al. 2023, "Replacing softmax with ReLU in Vision Transformers", 3.

        >>> NORMALISERS["relu"].times(0.5).name
        'relu * 0.5'
        """

        def forward(scores: AnyFloat, axis: int) -> AnyFloat:
            return self.forward(scores, axis) * factor

        def backward(
            scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int
        ) -> AnyFloat:
            del weights
            plain = self.forward(scores, axis)
            return self.backward(scores, plain, gradient * factor, axis)

        return Normaliser(f"{self.name} * {factor:g}", forward, backward)


def logsumexp(scores: AnyFloat, axis: int = -1) -> AnyFloat:
    """Return log Σ exp(s) over one axis, in nats, without overflow; -inf where all s are -inf.

    Elsewhere: the ``lse`` that fused kernels return and ring attention merges by.

    >>> float(logsumexp(np.array([0.0, 0.0, -np.inf])).round(4))
    0.6931
    """
    (scores,) = along("taking the log-sum-exp", axis, scores=scores)
    largest = scores.max(axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        total = np.exp(scores - shift).sum(axis, keepdims=True)
        return np.asarray((np.log(total) + shift).squeeze(axis))


def softmax(scores: AnyFloat, axis: int = -1) -> AnyFloat:
    """Return exp(s) / Σ exp(s); where all scores are -inf it is 0/0, NaN.

    Source: Bridle 1990; in attention Bahdanau et al. 2015, "Neural Machine Translation by Jointly
    Learning to Align and Translate", eq. 6.

    >>> softmax(np.array([0.0, 0.0, -np.inf]))
    array([0.5, 0.5, 0. ])
    """
    (scores,) = along("taking the softmax", axis, scores=scores)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(axis, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def softmax_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int = -1
) -> AnyFloat:
    """Return w · (g - Σ g·w): the Jacobian diag(w) - w wᵀ applied to a gradient of the weights.

    `scores` is not needed, and taken because every backward takes it.

    >>> w = softmax(np.array([0.0, 0.0]))
    >>> softmax_backward(np.zeros(2), w, np.array([1.0, 0.0]))
    array([ 0.25, -0.25])
    """
    del scores
    doing = "taking the gradient of the softmax"
    weights, gradient = along(doing, axis, weights=weights, gradient=gradient)
    return np.asarray(weights * (gradient - (gradient * weights).sum(axis, keepdims=True)))


def softmax_off_by_one(scores: AnyFloat, axis: int = -1) -> AnyFloat:
    """Return exp(s) / (1 + Σ exp(s)): softmax with one sink of score 0; its backward is the same.

    A row of -inf gives zeros. Source: Miller 2023, "Attention Is Off By One"; as a "quiet" or
    "zero" sink also ``add_zero_attn`` of ``torch.nn.MultiheadAttention``.

    >>> softmax_off_by_one(np.array([0.0, -np.inf]))
    array([0.5, 0. ])
    """
    (scores,) = along("taking softmax-off-by-one", axis, scores=scores)
    shift = scores.max(axis, keepdims=True, initial=0.0)
    powers = np.exp(scores - shift)
    return np.asarray(powers / (np.exp(-shift) + powers.sum(axis, keepdims=True)))


def _sigmoid(scores: AnyFloat, axis: int) -> AnyFloat:
    """Return 1 / (1 + exp(-s)), each key for itself (Ramapuram et al. 2024, sigmoid attention)."""
    del axis
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1.0, small) / (1.0 + small))


def _sigmoid_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int
) -> AnyFloat:
    del scores, axis
    return np.asarray(gradient * weights * (1.0 - weights))


def _relu(scores: AnyFloat, axis: int) -> AnyFloat:
    del axis
    return np.asarray(np.maximum(scores, 0.0))


def _relu_backward(scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int) -> AnyFloat:
    del weights, axis
    return np.where(scores > 0, gradient, 0.0)


def _relu_squared(scores: AnyFloat, axis: int) -> AnyFloat:
    """Return max(s, 0)² (So et al. 2021, "Primer", there in the feed-forward part)."""
    del axis
    return np.asarray(np.square(np.maximum(scores, 0.0)))


def _relu_squared_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int
) -> AnyFloat:
    del weights, axis
    return np.asarray(gradient * 2.0 * np.maximum(scores, 0.0))


def _relu_normalised(scores: AnyFloat, axis: int) -> AnyFloat:
    """Return max(s, 0) / Σ max(s, 0); without a positive score it is 0/0, NaN."""
    positive = np.maximum(scores, 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(positive / positive.sum(axis, keepdims=True))


def _relu_normalised_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int
) -> AnyFloat:
    total = np.maximum(scores, 0.0).sum(axis, keepdims=True)
    centred = gradient - (gradient * weights).sum(axis, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scores > 0, centred / total, 0.0)


def _exp(scores: AnyFloat, axis: int) -> AnyFloat:
    """Raise e to the scores, and divide by nothing."""
    del axis
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(scores))


def _exp_backward(scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int) -> AnyFloat:
    del scores, axis
    return np.asarray(gradient * weights)


def _exp_minus_max(scores: AnyFloat, axis: int) -> AnyFloat:
    """Return exp(s - max s): the numerator of a softmax."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.exp(scores - scores.max(axis, keepdims=True, initial=-np.inf)))


def _exp_minus_max_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int
) -> AnyFloat:
    """Return the gradient, where equal largest scores share that of the maximum evenly."""
    own = gradient * weights
    largest = scores == scores.max(axis, keepdims=True, initial=-np.inf)
    share = largest / np.maximum(largest.sum(axis, keepdims=True), 1)
    return np.asarray(own - share * own.sum(axis, keepdims=True))


def _tanh(scores: AnyFloat, axis: int) -> AnyFloat:
    del axis
    return np.where(np.isneginf(scores), 0.0, np.tanh(scores))


def _tanh_backward(scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int) -> AnyFloat:
    del axis
    return np.where(np.isneginf(scores), 0.0, gradient * (1.0 - np.square(weights)))


def _identity(scores: AnyFloat, axis: int) -> AnyFloat:
    """Return s, and 0 where it is -inf: linear attention without a feature map."""
    del axis
    return np.where(np.isneginf(scores), 0.0, scores)


def _identity_backward(
    scores: AnyFloat, weights: AnyFloat, gradient: AnyFloat, axis: int
) -> AnyFloat:
    del weights, axis
    return np.where(np.isneginf(scores), 0.0, gradient)


NORMALISERS: MappingProxyType[str, Normaliser] = MappingProxyType(
    {
        name: Normaliser(name, forward, backward)
        for name, forward, backward in (
            ("softmax", softmax, softmax_backward),
            ("softmax-off-by-one", softmax_off_by_one, softmax_backward),
            ("sigmoid", _sigmoid, _sigmoid_backward),
            ("relu", _relu, _relu_backward),
            ("relu-squared", _relu_squared, _relu_squared_backward),
            ("relu-normalised", _relu_normalised, _relu_normalised_backward),
            ("sparsemax", sparse.sparsemax, sparse.sparsemax_backward),
            ("entmax", sparse.entmax, sparse.entmax_backward),
            ("exp", _exp, _exp_backward),
            ("exp-minus-max", _exp_minus_max, _exp_minus_max_backward),
            ("tanh", _tanh, _tanh_backward),
            ("identity", _identity, _identity_backward),
        )
    }
)
"""Each normaliser by its name in a recipe; "entmax" is that with α = 1.5."""


def normaliser_of(given: str | Normaliser) -> Normaliser:
    """Return a normaliser by its name; one that is given as an object is returned.

    Raises:
        InputError: there is none of that name.

    >>> normaliser_of("sigmoid").name
    'sigmoid'
    """
    if isinstance(given, Normaliser):
        return given
    choice("choosing a normaliser", "the name", given, NORMALISERS)
    return NORMALISERS[given]
