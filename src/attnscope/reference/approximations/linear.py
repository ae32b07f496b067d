"""Linear attention: softmax's exponential kernel replaced by a product of elu(x) + 1.

It is attention by features with one fixed feature map. Scores are not scaled, and weights are far
flatter than those of softmax: sharp rows need large q and k.
"""

from __future__ import annotations

from typing import NamedTuple, Unpack

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.reference.approximations.features import (
    FeatureOptions,
    FeatureState,
    feature_attention,
    feature_attention_backward,
    feature_attention_recurrent,
)
from attnscope.reference.axes import Context, Key, Query, Value
from attnscope.reference.given import gradient_of, real

__all__ = [
    "LinearGradients",
    "elu_plus_one",
    "elu_plus_one_backward",
    "linear_attention",
    "linear_attention_backward",
    "linear_attention_recurrent",
]


class LinearGradients(NamedTuple):
    """Gradients of attention by features, each of the shape of its argument."""

    q: Query
    k: Key
    v: Value


def elu_plus_one(x: ArrayLike) -> Float64[np.ndarray, " ..."]:
    """Return the positive feature map of linear attention, for each number by itself.

        φ(x) = x + 1 for x > 0,  eˣ otherwise

    Raises:
        InputError: not real numbers.

    Source: Katharopoulos et al. 2020, "Transformers are RNNs", equation 7.

    Elsewhere: `elu_feature_map` of fast-transformers; `F.elu(x) + 1`.

    Example:
        >>> elu_plus_one([-1.0, 0.0, 1.0]).round(4)
        array([0.3679, 1.    , 2.    ])
    """
    x = real("taking elu(x) + 1", "x", x)
    return np.asarray(np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))))


def elu_plus_one_backward(gradient: ArrayLike, x: ArrayLike) -> Float64[np.ndarray, " ..."]:
    """Return the gradient of x from that of `elu_plus_one`.

        d_x = d_φ · (1 for x > 0, eˣ otherwise)

    Raises:
        InputError: not real numbers, or a gradient of another shape.

    Source: the derivative of Katharopoulos et al. 2020, equation 7.

    Elsewhere: autograd's.

    Example:
        >>> elu_plus_one_backward([1.0, 1.0], [-1.0, 1.0]).round(4)
        array([0.3679, 1.    ])
    """
    doing = "taking the gradient of elu(x) + 1"
    x = real(doing, "x", x)
    return np.asarray(gradient_of(doing, gradient, x.shape) * np.exp(np.minimum(x, 0)))


def linear_attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, **options: Unpack[FeatureOptions]
) -> Context:
    """Return the context of linear attention in its parallel form.

        context[i, :] = Σⱼ φ(q[i])·φ(k[j]) v[j, :] / (Σⱼ φ(q[i])·φ(k[j]) + eps),  φ = elu + 1

    Args:
        q: (..., queries, head_dim), not scaled.
        k: (..., keys, head_dim), with the same leading axes.
        v: (..., keys, value_dim).
        options: causal, keep and eps, as in `feature_attention`.

    Raises:
        InputError: as in `feature_attention`.

    Source: Katharopoulos et al. 2020, equations 4 to 9.

    Elsewhere: `LinearAttention` and `CausalLinearAttention` of fast-transformers (eps=1e-6).

    Example:
        >>> linear_attention([[0.0]], [[0.0], [2.0]], [[0.0], [4.0]])
        array([[3.]])
    """
    return feature_attention(elu_plus_one(q), elu_plus_one(k), v, **options)


def linear_attention_backward(
    gradient: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    **options: Unpack[FeatureOptions],
) -> LinearGradients:
    """Return the gradients of q, k and v from that of the context.

        those of φ(q), φ(k) and v as in `feature_attention_backward`, then through φ = elu + 1

    Args:
        gradient: that of the context, (..., queries, value_dim).
        q: as in `linear_attention`.
        k: as in `linear_attention`.
        v: as in `linear_attention`.
        options: as in `linear_attention`.

    Raises:
        InputError: as in `feature_attention_backward`.

    Source: the derivative of Katharopoulos et al. 2020, equation 4.

    Elsewhere: autograd's.

    Example:
        >>> linear_attention_backward([[1.0]], [[0.0]], [[0.0], [2.0]], [[0.0], [4.0]]).v
        array([[0.25],
               [0.75]])
    """
    features = feature_attention_backward(gradient, elu_plus_one(q), elu_plus_one(k), v, **options)
    return LinearGradients(
        elu_plus_one_backward(features.query_features, q),
        elu_plus_one_backward(features.key_features, k),
        features.v,
    )


def linear_attention_recurrent(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, state: FeatureState | None = None, *, eps: float = 0.0
) -> tuple[Context, FeatureState]:
    """Return the causal context of linear attention token by token, and the state after the last.

    It is `feature_attention_recurrent` with φ = elu + 1: queries and keys are as many, and the
    state goes on from the tokens before.

    Args:
        q: (..., length, head_dim).
        k: (..., length, head_dim).
        v: (..., length, value_dim).
        state: as in `feature_attention_recurrent`; so is eps.
        eps: see state.

    Raises:
        InputError: as in `feature_attention_recurrent`.

    Source: Katharopoulos et al. 2020, section 3.4.

    Elsewhere: `RecurrentLinearAttention` of fast-transformers.

    Example:
        >>> context, state = linear_attention_recurrent([[0.0]], [[0.0]], [[0.0]])
        >>> linear_attention_recurrent([[0.0]], [[2.0]], [[4.0]], state)[0]
        array([[3.]])
    """
    return feature_attention_recurrent(elu_plus_one(q), elu_plus_one(k), v, state, eps=eps)
