"""Linformer: keys and values are summed into fewer ones before they are attended to.

Two learned matrices mix the positions, so that the cost is linear in the length. What follows from
it and is often missed: the length is fixed, padding has to be zeroed before the mixing, and
nothing causal can be had, because every mixed key holds later tokens.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.reference.arrays import sum_to
from attnscope.reference.axes import Context, Key, Query, Value
from attnscope.reference.given import fit, gradient_of, kept, number, real, streams
from attnscope.reference.normalisers.named import softmax, softmax_backward

__all__ = ["LinformerGradients", "linformer_attention", "linformer_attention_backward"]

Given: TypeAlias = Float64[np.ndarray, " ..."]
"""An argument before its shape is checked."""

_DOING = "attending as Linformer"


class LinformerGradients(NamedTuple):
    """Gradients of `linformer_attention`, each of the shape of its argument."""

    q: Query
    k: Key
    v: Value
    key_mixing: Float64[np.ndarray, " ..."]
    value_mixing: Float64[np.ndarray, " ..."]


def linformer_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    key_mixing: ArrayLike,
    value_mixing: ArrayLike,
    *,
    scale: float | None = None,
    keep: ArrayLike | None = None,
) -> Context:
    """Return the context of attention over mixed keys and values.

        k' = E · k,  v' = F · v                     over the keys, padding set to 0 before
        context = softmax(scale · q · k'ᵀ) · v'

    Args:
        q: (..., queries, head_dim).
        k: (..., keys, head_dim), with the same leading axes.
        v: (..., keys, value_dim).
        key_mixing: E, (mixed, keys) for all heads, or (heads, mixed, keys) with the leading axis
            of q that lies before the queries.
        value_mixing: F, of the same kinds; E itself where the two are shared.
        scale: of the scores; None: 1/√head_dim.
        keep: (..., keys) that broadcasts to the leading axes, True = a real token, False = padding;
            None: all real.

    Raises:
        InputError: shapes that don't fit, or a keep that is not boolean.

    Source: Wang et al. 2020, "Linformer: Self-Attention with Linear Complexity", equation 7.

    Elsewhere: `proj_k` and `proj_v` of lucidrains' linformer, (keys, mixed), transposed against the
    paper; shorter sequences take the first columns of E and F.

    Example:
        >>> v = [[1.0], [2.0], [3.0], [4.0]]
        >>> pairs = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
        >>> linformer_attention([[0.0]], v, v, pairs, pairs)
        array([[2.5]])
    """
    return _Mixed(_DOING, (q, k, v), (key_mixing, value_mixing), scale, keep).context


def linformer_attention_backward(
    gradient: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    key_mixing: ArrayLike,
    value_mixing: ArrayLike,
    *,
    scale: float | None = None,
    keep: ArrayLike | None = None,
) -> LinformerGradients:
    """Return the gradients of q, k, v, E and F from that of the context.

        d_v' = weightsᵀ · gradient,                    d_F = d_v' · vᵀ,  d_v = Fᵀ · d_v'
        d_scores = softmax's backward of gradient · v'ᵀ
        d_q = scale · d_scores · k',  d_k' = scale · d_scoresᵀ · q,  then as for v

    Where E and F are one matrix, its gradient is the sum of both. Padding gets 0.

    Args:
        gradient: that of the context, (..., queries, value_dim).
        q: as in `linformer_attention`.
        k: as in `linformer_attention`.
        v: as in `linformer_attention`.
        key_mixing: as in `linformer_attention`.
        value_mixing: as in `linformer_attention`.
        scale: as in `linformer_attention`.
        keep: as in `linformer_attention`.

    Raises:
        InputError: as in `linformer_attention`, or a gradient of another shape.

    Source: the derivative of Wang et al. 2020, equation 7.

    Elsewhere: autograd's.

    Example:
        >>> v = [[1.0], [2.0], [3.0], [4.0]]
        >>> pairs = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]
        >>> linformer_attention_backward([[1.0]], [[0.0]], v, v, pairs, pairs).v.ravel()
        array([0.25, 0.25, 0.25, 0.25])
    """
    doing = "taking the gradients of Linformer"
    mixed = _Mixed(doing, (q, k, v), (key_mixing, value_mixing), scale, keep)
    gradient = gradient_of(doing, gradient, mixed.context.shape)
    of_weights = gradient @ mixed.v_mixed.swapaxes(-1, -2)
    of_scores = mixed.scale * softmax_backward(mixed.scores, mixed.weights, of_weights)
    of_k_mixed = of_scores.swapaxes(-1, -2) @ mixed.q
    of_v_mixed = mixed.weights.swapaxes(-1, -2) @ gradient
    return LinformerGradients(
        np.asarray(of_scores @ mixed.k_mixed),
        np.asarray(mixed.e.swapaxes(-1, -2) @ of_k_mixed * mixed.real_keys),
        np.asarray(mixed.f.swapaxes(-1, -2) @ of_v_mixed * mixed.real_keys),
        sum_to(of_k_mixed @ mixed.k.swapaxes(-1, -2), mixed.e.shape),
        sum_to(of_v_mixed @ mixed.v.swapaxes(-1, -2), mixed.f.shape),
    )


class _Mixed:
    """The steps of the forward, kept for the backward."""

    def __init__(
        self,
        doing: str,
        qkv: tuple[ArrayLike, ArrayLike, ArrayLike],
        mixing: tuple[ArrayLike, ArrayLike],
        scale: float | None,
        keep: ArrayLike | None,
    ) -> None:
        q, k, v = streams(doing, *qkv)
        names = ("key_mixing", "value_mixing")
        e, f = (real(doing, name, x, axes=2) for name, x in zip(names, mixing, strict=True))
        _check(doing, q, k, v, e, f)
        self.real_keys = kept(doing, keep, k.shape[:-1])[..., None]
        self.q, self.k, self.v, self.e, self.f = q, k * self.real_keys, v * self.real_keys, e, f
        self.scale = q.shape[-1] ** -0.5 if scale is None else number(doing, "scale", scale)
        self.k_mixed, self.v_mixed = e @ self.k, f @ self.v  # (..., mixed, width)
        self.scores = self.scale * q @ self.k_mixed.swapaxes(-1, -2)
        self.weights = softmax(self.scores)
        self.context: Context = np.asarray(self.weights @ self.v_mixed)


def _check(doing: str, q: Given, k: Given, v: Given, *mixing: Given) -> None:
    e, f = mixing
    shapes = {"q": q, "k": k, "v": v, "key_mixing": e, "value_mixing": f}
    fit(
        doing,
        {name: one.shape for name, one in shapes.items()},
        f"give both mixings as (mixed, {k.shape[-2]}) or (heads, mixed, {k.shape[-2]}), cut to the "
        "length of the keys",
        holds=e.shape[-2] == f.shape[-2]
        and all(
            one.shape[-1] == k.shape[-2] and one.shape[:-2] in {(), q.shape[:-2][-1:]}
            for one in mixing
        ),
    )
