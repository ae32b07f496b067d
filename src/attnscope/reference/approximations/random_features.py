"""Random features: softmax attention in linear time, right on average (Performer).

Positive features estimate exp(q·k) without bias; their error falls with one over the square root
of their number and grows steeply with the length of q + k. The estimate of the kernel is unbiased;
the context, a quotient of two estimates, is only nearly so.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.reference.approximations.features import (
    feature_attention,
    feature_attention_backward,
)
from attnscope.reference.approximations.linear import LinearGradients
from attnscope.reference.axes import Context
from attnscope.reference.given import count, fit, flag, gradient_of, positive, real

__all__ = [
    "performer_attention",
    "performer_attention_backward",
    "positive_features",
    "positive_features_backward",
    "random_projections",
]

_DOING = "attending by random features"


def random_projections(
    features: int,
    head_dim: int,
    *,
    orthogonal: bool = True,
    seed: int | np.random.Generator = 0,
) -> Float64[np.ndarray, "features head_dim"]:
    """Return the random directions that features are made of, each distributed as N(0, 1).

        independent: all entries are N(0, 1)
        orthogonal:  blocks of head_dim rows, each block a uniformly random orthogonal matrix whose
                     rows are stretched to the lengths of independent N(0, 1) rows

    Both give unbiased features; orthogonal ones vary less.

    Args:
        features: number of rows.
        head_dim: number of columns.
        orthogonal: whether the rows of a block are at right angles.
        seed: of NumPy's generator, or a generator to draw from.

    Raises:
        InputError: features or head_dim below 1.

    Source: Choromanski et al. 2021, "Rethinking Attention with Performers", section 2.4.

    Elsewhere: `gaussian_orthogonal_random_matrix` of performer-pytorch, with scaling=0; its
    scaling=1 gives all rows the length √head_dim, which is biased.

    Example:
        >>> w = random_projections(2, 4)
        >>> bool(abs(w[0] @ w[1]) < 1e-12)
        True
    """
    doing = "drawing random projections"
    features = count(doing, "features", features)
    head_dim = count(doing, "head_dim", head_dim)
    if not isinstance(seed, np.random.Generator):
        seed = count(doing, "seed", seed, least=0)
    generator = np.random.default_rng(seed)
    gaussian = generator.standard_normal((features, head_dim))
    if not flag(doing, "orthogonal", orthogonal):
        return gaussian
    rows = _orthogonal(-(-features // head_dim), head_dim, generator).reshape(-1, head_dim)
    lengths = np.linalg.norm(gaussian, axis=1, keepdims=True)
    return np.asarray(lengths * rows[:features])


def positive_features(
    x: ArrayLike, projections: ArrayLike
) -> Float64[np.ndarray, "... length features"]:
    """Return positive random features, whose products estimate the softmax kernel.

        φ(x)[f] = exp(w[f]·x - |x|²/2) / √features,     E[φ(x)·φ(y)] = exp(x·y)
        Var[φ(x)·φ(y)] = exp(|x + y|²) · exp(2 x·y) · (1 - exp(-|x + y|²)) / features

    The variance is that of independent rows; orthogonal rows have less. Attention with a scale s
    takes √s · q and √s · k.

    Args:
        x: (..., length, head_dim).
        projections: (features, head_dim), such as `random_projections`; with both w and -w as rows
            they are the paper's hyperbolic features.

    Raises:
        InputError: shapes that don't fit.

    Source: Choromanski et al. 2021, lemma 1 and lemma 2.

    Elsewhere: `softmax_kernel` of performer-pytorch, without its shift by the maximum and its eps.

    Example:
        >>> w = random_projections(4096, 2)
        >>> x, y = positive_features([[0.5, 0.0], [0.5, 0.5]], w)
        >>> round(float(x @ y), 1), round(float(np.exp(0.25)), 1)
        (1.3, 1.3)
    """
    logs, features = _logs("making positive random features", x, projections)
    return np.asarray(np.exp(logs) / np.sqrt(features))


def positive_features_backward(
    gradient: ArrayLike, x: ArrayLike, projections: ArrayLike
) -> Float64[np.ndarray, "... length head_dim"]:
    """Return the gradient of x from that of `positive_features`.

        g = gradient · φ(x),     d_x = g · w - x · Σ_f g[f]

    Args:
        gradient: that of the features, (..., length, features).
        x: as in `positive_features`.
        projections: as in `positive_features`; they are drawn, not learned.

    Raises:
        InputError: as in `positive_features`, or a gradient of another shape.

    Source: the derivative of Choromanski et al. 2021, lemma 1.

    Elsewhere: autograd's.

    Example:
        >>> positive_features_backward([[1.0]], [[0.0]], [[2.0]])
        array([[2.]])
    """
    doing = "taking the gradient of positive random features"
    features = positive_features(x, projections)
    of_logs = gradient_of(doing, gradient, features.shape) * features
    x, projections = real(doing, "x", x), real(doing, "projections", projections)
    return np.asarray(of_logs @ projections - x * of_logs.sum(-1, keepdims=True))


def performer_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    projections: ArrayLike,
    *,
    scale: float | None = None,
    causal: bool = False,
    keep: ArrayLike | None = None,
) -> Context:
    """Return the context of softmax attention, estimated by positive random features.

        context[i, :] = Σⱼ φ(√scale q[i])·φ(√scale k[j]) v[j, :] / Σⱼ φ(√scale q[i])·φ(√scale k[j])

    Each row of q's features, and all of k's features together, are divided by their largest one
    before the exponential can overflow; both cancel in the quotient.

    Args:
        q: (..., queries, head_dim).
        k: (..., keys, head_dim), with the same leading axes.
        v: (..., keys, value_dim).
        projections: (features, head_dim), the same for q and k.
        scale: of the scores, positive; None: 1/√head_dim.
        causal: whether later keys are hidden; queries and keys must then be equal in number.
        keep: (..., keys) that broadcasts, True = a real token, False = padding; None: all real.

    Raises:
        InputError: shapes that don't fit, or a scale that is not positive.

    Source: Choromanski et al. 2021, section 2.2, equation 4 and section 2.3.

    Elsewhere: `FastAttention` of performer-pytorch, FAVOR+.

    Example:
        >>> w = random_projections(4096, 1)
        >>> performer_attention([[1.0]], [[0.0], [1.0]], [[0.0], [1.0]], w).round(1)
        array([[0.7]])
        >>> (1 / (1 + np.exp([-1.0]))).round(1)
        array([0.7])
    """
    features = _shifted(_DOING, q, k, projections, scale)
    return feature_attention(*features, v, causal=causal, keep=keep)


def performer_attention_backward(
    gradient: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    projections: ArrayLike,
    *,
    scale: float | None = None,
    causal: bool = False,
    keep: ArrayLike | None = None,
) -> LinearGradients:
    """Return the gradients of q, k and v from that of the context.

        g = d_φ · φ,     d_q = √scale · (g · w - √scale q · Σ_f g[f]),  and d_k alike

    Args:
        gradient: that of the context, (..., queries, value_dim).
        q: as in `performer_attention`.
        k: as in `performer_attention`.
        v: as in `performer_attention`.
        projections: as in `performer_attention`.
        scale: as in `performer_attention`.
        causal: as in `performer_attention`.
        keep: as in `performer_attention`.

    Raises:
        InputError: as in `performer_attention`, or a gradient of another shape.

    Source: the derivative of Choromanski et al. 2021, section 2.3.

    Elsewhere: autograd's.

    Example:
        >>> w = random_projections(4096, 1)
        >>> k = [[0.0], [1.0]]
        >>> performer_attention_backward([[1.0]], [[1.0]], k, k, w).v.round(1).ravel()
        array([0.3, 0.7])
    """
    doing = "taking the gradients of attention by random features"
    features = _shifted(doing, q, k, projections, scale)
    found = feature_attention_backward(gradient, *features, v, causal=causal, keep=keep)
    of_q, of_k = found.query_features * features[0], found.key_features * features[1]
    return LinearGradients(
        _through_logs(of_q, q, projections, scale),
        _through_logs(of_k, k, projections, scale),
        found.v,
    )


def _orthogonal(
    blocks: int, size: int, generator: np.random.Generator
) -> Float64[np.ndarray, "blocks head_dim head_dim"]:
    """Return uniformly random orthogonal matrices: QR, with the signs of R taken out of Q."""
    q, r = np.linalg.qr(generator.standard_normal((blocks, size, size)))
    return np.asarray(q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[:, None, :])


def _logs(
    doing: str, x: ArrayLike, projections: ArrayLike
) -> tuple[Float64[np.ndarray, "... length features"], int]:
    """Return w·x - |x|²/2, and the number of features."""
    x, w = real(doing, "x", x, axes=1), real(doing, "projections", projections)
    fit(
        doing,
        {"x": x.shape, "projections": w.shape},
        "give x (..., length, head_dim) and projections (features, head_dim)",
        holds=w.ndim == len(("features", "head_dim")) and x.shape[-1] == w.shape[-1],
    )
    return x @ w.T - np.square(x).sum(-1, keepdims=True) / 2, len(w)


def _shifted(
    doing: str, q: ArrayLike, k: ArrayLike, projections: ArrayLike, scale: float | None
) -> tuple[Float64[np.ndarray, "... queries features"], Float64[np.ndarray, "... keys features"]]:
    """Return the features of √scale·q and √scale·k, each divided by a factor that cancels."""
    q, k = real(doing, "q", q, axes=2), real(doing, "k", k, axes=2)
    if scale is not None:
        positive(doing, "give a positive number, usually 1/√head_dim", scale=scale)
    root = np.sqrt(q.shape[-1] ** -0.5 if scale is None else scale)
    of_q, _ = _logs(doing, root * q, projections)
    of_k, _ = _logs(doing, root * k, projections)
    of_q = of_q - of_q.max(-1, keepdims=True)
    return np.exp(of_q), np.exp(of_k - of_k.max((-2, -1), keepdims=True, initial=-np.inf))


def _through_logs(
    gradient: Float64[np.ndarray, "... length features"],
    x: ArrayLike,
    projections: ArrayLike,
    scale: float | None,
) -> Float64[np.ndarray, "... length head_dim"]:
    """Return the gradient of x from that of w·y - |y|²/2 where y = √scale · x."""
    x = np.asarray(x, dtype=np.float64)
    root = np.sqrt(x.shape[-1] ** -0.5 if scale is None else scale)
    own = root * x * gradient.sum(-1, keepdims=True)
    return np.asarray(root * (gradient @ np.asarray(projections, dtype=np.float64) - own))
