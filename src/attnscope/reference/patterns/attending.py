"""Attention that touches only the keys its pattern shows, equal to the masked dense form.

One row at a time: the visible keys are listed, gathered, scored and summed. A hidden key is never
read, so that NaN in it changes nothing; the dense form has to multiply it by 0 first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.axes import Context, Key, Query, Value
from attnscope.reference.given import gradient_of, number, streams
from attnscope.reference.masks.alignment import Alignment, first_place
from attnscope.reference.normalisers.named import softmax, softmax_backward
from attnscope.reference.patterns.by_distance import Pattern

__all__ = [
    "PatternGradients",
    "pairs_of",
    "pattern_attention",
    "pattern_attention_backward",
]

_DOING = "attending by a sparse pattern"


class PatternGradients(NamedTuple):
    """Gradients of `pattern_attention`, each of the shape of its argument."""

    q: Query
    k: Key
    v: Value


def pattern_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    pattern: Pattern,
    *,
    scale: float | None = None,
    alignment: Alignment | None = None,
) -> Context:
    """Return the context of attention over the keys that a pattern shows.

        S(i)              = pattern.keys_of(position of query i)
        weights[..., i, :] = softmax over j in S(i) of scale · q[..., i, :]·k[..., j, :]
        context[..., i, :] = Σ over j in S(i) of weights[..., i, j] · v[..., j, :]

    The cost is that of the visible pairs. A query that sees no key gets NaN, as in dense attention.

    Args:
        q: (..., queries, head_dim).
        k: (..., keys, head_dim), with the same leading axes (kv heads repeated).
        v: (..., keys, value_dim).
        pattern: which keys each position sees.
        scale: of the scores; None: 1/√head_dim.
        alignment: where the queries lie among the keys; needed where they differ in number.

    Raises:
        InputError: shapes that don't fit, or no alignment where one is needed.

    Source: Child et al. 2019, "Generating Long Sequences with Sparse Transformers", equation 2.

    Elsewhere: FlexAttention with a `BlockMask`; DeepSpeed's sparse attention.

    Example:
        >>> from attnscope.reference import SlidingWindow
        >>> k = [[1.0], [1.0], [1.0]]
        >>> pattern_attention(k, k, [[0.0], [2.0], [4.0]], SlidingWindow(1))
        array([[0.],
               [1.],
               [3.]])
    """
    q, k, v, scale = _taken(_DOING, q, k, v, pattern, scale)
    start = first_place(q.shape[-2], k.shape[-2], alignment)
    context = np.full((*q.shape[:-1], v.shape[-1]), np.nan)
    for row in range(q.shape[-2]):
        seen = pattern.keys_of(start + row, k.shape[-2])
        if len(seen):
            weights = softmax(scale * _scores(q[..., row, :], k[..., seen, :]))
            context[..., row, :] = np.einsum("...j,...jd->...d", weights, v[..., seen, :])
    return context


def pattern_attention_backward(
    gradient: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    pattern: Pattern,
    *,
    scale: float | None = None,
    alignment: Alignment | None = None,
) -> PatternGradients:
    """Return the gradients of q, k and v from that of the context, over the visible pairs alone.

        g_weights[i, j] = gradient[i]·v[j]
        g_scores[i, :]  = weights[i, :] · (g_weights[i, :] - Σⱼ g_weights[i, j] · weights[i, j])
        d_q[i] = scale · Σⱼ g_scores[i, j] · k[j]
        d_k[j] = scale · Σᵢ g_scores[i, j] · q[i]
        d_v[j] = Σᵢ weights[i, j] · gradient[i]

    A query that sees no key gives nothing to any of them.

    Args:
        gradient: that of the context, (..., queries, value_dim).
        q: as in `pattern_attention`.
        k: as in `pattern_attention`.
        v: as in `pattern_attention`.
        pattern: as in `pattern_attention`.
        scale: as in `pattern_attention`.
        alignment: as in `pattern_attention`.

    Raises:
        InputError: as in `pattern_attention`, or a gradient of another shape.

    Source: the derivative of Child et al. 2019, equation 2.

    Elsewhere: autograd's.

    Example:
        >>> from attnscope.reference import SlidingWindow
        >>> k = [[1.0], [1.0]]
        >>> pattern_attention_backward([[0.0], [1.0]], k, k, [[0.0], [2.0]], SlidingWindow(1)).v
        array([[0.5],
               [0.5]])
    """
    doing = "taking the gradients of attention by a sparse pattern"
    q, k, v, scale = _taken(doing, q, k, v, pattern, scale)
    gradient = gradient_of(doing, gradient, (*q.shape[:-1], v.shape[-1]))
    start = first_place(q.shape[-2], k.shape[-2], alignment)
    out = PatternGradients(np.zeros(q.shape), np.zeros(k.shape), np.zeros(v.shape))
    for row in range(q.shape[-2]):
        seen = pattern.keys_of(start + row, k.shape[-2])
        if not len(seen):
            continue
        own, keys, given = q[..., row, :], k[..., seen, :], gradient[..., row, :]
        scores = scale * _scores(own, keys)
        weights = softmax(scores)
        of_weights = np.einsum("...d,...jd->...j", given, v[..., seen, :])
        of_scores = scale * softmax_backward(scores, weights, of_weights)
        out.q[..., row, :] = np.einsum("...j,...jd->...d", of_scores, keys)
        out.k[..., seen, :] += of_scores[..., None] * own[..., None, :]
        out.v[..., seen, :] += weights[..., None] * given[..., None, :]
    return out


def pairs_of(pattern: Pattern, queries: int, keys: int, alignment: Alignment | None = None) -> int:
    """Return how many (query, key) pairs are computed, of queries · keys in the dense form.

    Raises:
        InputError: no alignment where one is needed.

    Source: Child et al. 2019, section 4.2, where it is to be of order n·√n.

    Example:
        >>> from attnscope.reference import SlidingWindow
        >>> pairs_of(SlidingWindow(1), 4, 4)
        7
    """
    _rule("counting the pairs of a sparse pattern", pattern)
    start = first_place(queries, keys, alignment)
    return sum(len(pattern.keys_of(start + row, keys)) for row in range(queries))


def _scores(
    q: Float64[np.ndarray, "... head_dim"], k: Float64[np.ndarray, "... seen head_dim"]
) -> Float64[np.ndarray, "... seen"]:
    return np.asarray(np.einsum("...d,...jd->...j", q, k))


def _taken(
    doing: str, q: ArrayLike, k: ArrayLike, v: ArrayLike, pattern: object, scale: float | None
) -> tuple[Query, Key, Value, float]:
    _rule(doing, pattern)
    q, k, v = streams(doing, q, k, v)
    return q, k, v, q.shape[-1] ** -0.5 if scale is None else number(doing, "scale", scale)


def _rule(doing: str, pattern: object) -> None:
    if not isinstance(pattern, Pattern) or isinstance(pattern, type):
        name = pattern.__name__ if isinstance(pattern, type) else type(pattern).__name__
        raise InputError(
            doing,
            f"the pattern is {name}",
            "give a rule, such as SlidingWindow(3); a mask goes to attention(mask=…)",
        )
