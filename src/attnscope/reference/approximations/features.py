"""Attention whose weights are products of positive features: the frame of linear attention.

Where weight[i, j] is proportional to φ(q[i])·φ(k[j]), the sums over keys can be taken first, or
kept as a state that grows by one token at a time. Here is the definition by the weights (the
parallel form), and the form with a state (the recurrent one), which are equal.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, TypedDict

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import ArrayLike

from attnscope.reference.axes import Context, Value
from attnscope.reference.given import fit, flag, gradient_of, instance, kept, number, real

__all__ = [
    "FeatureGradients",
    "FeatureOptions",
    "FeatureState",
    "feature_attention",
    "feature_attention_backward",
    "feature_attention_recurrent",
]

QueryFeatures: TypeAlias = Float64[np.ndarray, "... queries features"]
KeyFeatures: TypeAlias = Float64[np.ndarray, "... keys features"]

_DOING = "attending by features"


class FeatureOptions(TypedDict, total=False):
    """The arguments of `feature_attention` that go by name."""

    causal: bool
    keep: ArrayLike | None
    eps: float


class FeatureGradients(NamedTuple):
    """Gradients of `feature_attention`, each of the shape of its argument."""

    query_features: QueryFeatures
    key_features: KeyFeatures
    v: Value


class FeatureState(NamedTuple):
    """All that the tokens so far have left: of a size that does not grow.

    sums: Σⱼ φ(k[j]) v[j]ᵀ, (..., features, value_dim). totals: Σⱼ φ(k[j]), (..., features).
    """

    sums: Float64[np.ndarray, "... features value_dim"]
    totals: Float64[np.ndarray, "... features"]


def feature_attention(
    query_features: ArrayLike,
    key_features: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    keep: ArrayLike | None = None,
    eps: float = 0.0,
) -> Context:
    """Return the context whose weights are products of features: the parallel form.

        kernel[i, j]  = φ(q[i])·φ(k[j])                             0 where a key is hidden
        context[i, :] = Σⱼ kernel[i, j] · v[j, :] / (Σⱼ kernel[i, j] + eps)

    A row whose kernel sums to 0 is 0/0, NaN.

    Args:
        query_features: (..., queries, features), positive.
        key_features: (..., keys, features), positive, with the same leading axes.
        v: (..., keys, value_dim).
        causal: whether later keys are hidden; queries and keys must then be equal in number.
        keep: (..., keys) that broadcasts, True = a real token, False = padding; None: all real.
        eps: added to the divisor; the rows then sum to less than 1.

    Raises:
        InputError: shapes that don't fit, or a keep that is not boolean.

    Source: Katharopoulos et al. 2020, "Transformers are RNNs: Fast Autoregressive Transformers with
        Linear Attention", equations 4 and 8.

    Elsewhere: fast-transformers has eps=1e-6.

    Example:
        >>> feature_attention([[1.0], [1.0]], [[1.0], [3.0]], [[0.0], [4.0]])
        array([[3.],
               [3.]])
        >>> feature_attention([[1.0], [1.0]], [[1.0], [3.0]], [[0.0], [4.0]], causal=True)
        array([[0.],
               [3.]])
    """
    features, keys, v = _taken(_DOING, query_features, key_features, v)
    eps = number(_DOING, "eps", eps, least=0)
    kernel = _kernel(_DOING, features, keys, causal=causal, keep=keep)
    with np.errstate(invalid="ignore"):
        return np.asarray(kernel @ v / (kernel.sum(-1, keepdims=True) + eps))


def feature_attention_backward(
    gradient: ArrayLike,
    query_features: ArrayLike,
    key_features: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    keep: ArrayLike | None = None,
    eps: float = 0.0,
) -> FeatureGradients:
    """Return the gradients of both features and of v from that of the context.

        d_kernel[i, j] = gradient[i]·(v[j] - context[i]) / total[i]   0 where a key is hidden
        d_φ(q) = d_kernel · φ(k),   d_φ(k) = d_kernelᵀ · φ(q),   d_v = (kernel / total)ᵀ · gradient

    with total[i] = Σⱼ kernel[i, j] + eps.

    Args:
        gradient: that of the context, (..., queries, value_dim).
        query_features: as in `feature_attention`.
        key_features: as in `feature_attention`.
        v: as in `feature_attention`.
        causal: as in `feature_attention`.
        keep: as in `feature_attention`.
        eps: as in `feature_attention`.

    Raises:
        InputError: as in `feature_attention`, or a gradient of another shape.

    Source: the derivative of Katharopoulos et al. 2020, equation 4; its supplementary section A
        has it in linear memory.

    Elsewhere: autograd's, or `causal_product` of fast-transformers.

    Example:
        >>> feature_attention_backward([[1.0]], [[1.0]], [[1.0], [3.0]], [[0.0], [4.0]]).v
        array([[0.25],
               [0.75]])
    """
    doing = "taking the gradients of attention by features"
    features, keys, v = _taken(doing, query_features, key_features, v)
    eps = number(doing, "eps", eps, least=0)
    kernel = _kernel(doing, features, keys, causal=causal, keep=keep)
    gradient = gradient_of(doing, gradient, (*features.shape[:-1], v.shape[-1]))
    total = kernel.sum(-1, keepdims=True) + eps
    context = kernel @ v / total
    of_kernel = gradient @ v.swapaxes(-1, -2) - (gradient * context).sum(-1, keepdims=True)
    of_kernel = of_kernel / total * _shown(doing, kernel.shape, causal=causal, keep=keep)
    return FeatureGradients(
        np.asarray(of_kernel @ keys),
        np.asarray(of_kernel.swapaxes(-1, -2) @ features),
        np.asarray((kernel / total).swapaxes(-1, -2) @ gradient),
    )


def feature_attention_recurrent(
    query_features: ArrayLike,
    key_features: ArrayLike,
    v: ArrayLike,
    state: FeatureState | None = None,
    *,
    eps: float = 0.0,
) -> tuple[Context, FeatureState]:
    """Return the causal context, one token at a time, and the state after the last one.

        sums   ← sums + φ(k[t]) v[t]ᵀ,     totals ← totals + φ(k[t])
        context[t] = φ(q[t])·sums / (φ(q[t])·totals + eps)

    With the state of what came before, it goes on from there.

    Args:
        query_features: (..., length, features), positive.
        key_features: (..., length, features), positive.
        v: (..., length, value_dim).
        state: after the tokens before these; None: these are the first.
        eps: added to the divisor.

    Raises:
        InputError: shapes that don't fit.

    Source: Katharopoulos et al. 2020, section 3.4, equations 16 to 20.

    Elsewhere: `RecurrentLinearAttention` of fast-transformers.

    Example:
        >>> context, state = feature_attention_recurrent([[1.0]], [[1.0]], [[0.0]])
        >>> feature_attention_recurrent([[1.0]], [[3.0]], [[4.0]], state)[0]
        array([[3.]])
    """
    features, keys, v = _taken(_DOING, query_features, key_features, v)
    eps = number(_DOING, "eps", eps, least=0)
    leading, length = features.shape[:-2], features.shape[-2]
    fit(
        _DOING,
        {"query_features": features.shape, "key_features": keys.shape},
        "give one query for each key",
        holds=length == keys.shape[-2],
    )
    shapes = (*leading, features.shape[-1], v.shape[-1]), (*leading, features.shape[-1])
    if state is None:
        state = FeatureState(*(np.zeros(shape) for shape in shapes))
    instance(_DOING, "state", state, FeatureState)
    sums, totals = state
    fit(
        _DOING,
        {"sums": sums.shape, "totals": totals.shape},
        f"give a state of the shapes {shapes[0]} and {shapes[1]}",
        holds=(sums.shape, totals.shape) == shapes,
    )
    context = np.empty((*leading, length, v.shape[-1]))
    for step in range(length):
        own = features[..., step, :]
        sums = sums + keys[..., step, :, None] * v[..., step, None, :]
        totals = totals + keys[..., step, :]
        total = (own * totals).sum(-1, keepdims=True) + eps
        with np.errstate(invalid="ignore"):
            context[..., step, :] = np.einsum("...f,...fd->...d", own, sums) / total
    return context, FeatureState(sums, totals)


def _taken(
    doing: str, query_features: ArrayLike, key_features: ArrayLike, v: ArrayLike
) -> tuple[QueryFeatures, KeyFeatures, Value]:
    features = real(doing, "query_features", query_features, axes=2)
    keys = real(doing, "key_features", key_features, axes=2)
    v = real(doing, "v", v, axes=2)
    fit(
        doing,
        {"query_features": features.shape, "key_features": keys.shape, "v": v.shape},
        "give (..., queries, features), (..., keys, features), (..., keys, value_dim) with the "
        "same leading axes",
        holds=features.shape[:-2] == keys.shape[:-2] == v.shape[:-2]
        and features.shape[-1] == keys.shape[-1]
        and keys.shape[-2] == v.shape[-2],
    )
    return features, keys, v


def _kernel(
    doing: str, features: QueryFeatures, keys: KeyFeatures, *, causal: bool, keep: ArrayLike | None
) -> Float64[np.ndarray, "... queries keys"]:
    kernel = features @ keys.swapaxes(-1, -2)
    return np.asarray(kernel * _shown(doing, kernel.shape, causal=causal, keep=keep))


def _shown(
    doing: str, shape: tuple[int, ...], *, causal: bool, keep: ArrayLike | None
) -> Bool[np.ndarray, "... queries keys"]:
    """Return the mask that broadcasts to the kernel of this shape, True = may attend."""
    shown = np.ones(shape[-2:], dtype=np.bool_)
    if flag(doing, "causal", causal):
        fit(
            doing,
            {"kernel": shape},
            "give as many queries as keys, or use the recurrent form with the state before them",
            holds=shape[-2] == shape[-1],
        )
        shown = np.tril(shown)
    return np.asarray(shown & kept(doing, keep, (*shape[:-2], shape[-1]))[..., None, :])
