"""Scaled dot-product attention with every part that the field puts into it, forward.

This is the definition that the rest of attnscope is compared with. `backward` holds its gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnscope.errors import InputError
from attnscope.reference.arrays import AsArray
from attnscope.reference.axes import (
    AnyFloat,
    Bias,
    Context,
    Key,
    PerRow,
    Query,
    Scores,
    Sinks,
    Value,
    Visible,
    Weights,
)
from attnscope.reference.heads import KvMap
from attnscope.reference.masks.alignment import Alignment
from attnscope.reference.normalisers.named import Normaliser
from attnscope.reference.parts import DOING, Edit, Parts
from attnscope.reference.rows import EmptyRow, row_logsumexp, weigh

__all__ = ["Attention", "attention"]


@dataclass(frozen=True, slots=True, eq=False)
class Attention(AsArray):
    """Every step of one attention; as an array (``np.asarray``, any NumPy function) its context.

    raw_scores: q·k (..., queries, keys), edited where an edit was given; so are the next two.
    scores: what enters the normaliser; -inf where the mask hides.
    weights: what leaves the normaliser, without sinks, before dropout.
    dropped_weights: what meets v: the weights after dropout; without dropout the same array.
    context: dropped_weights @ v (..., queries, value_dim).
    logsumexp: log Σ exp(scores) over keys and sinks (..., queries), in nats.
    """

    raw_scores: Scores
    scores: Scores
    weights: Weights
    dropped_weights: Weights
    context: Context
    logsumexp: PerRow

    main = "context"


def attention(  # noqa: PLR0913 - one argument for each part that attention has
    q: Query,
    k: Key,
    v: Value,
    *,
    scale: float | AnyFloat | None = None,
    mask: Visible | None = None,
    causal: Alignment | bool | None = None,
    bias: Bias | None = None,
    softcap: float | None = None,
    sinks: Sinks | None = None,
    normaliser: str | Normaliser = "softmax",
    keep: Visible | None = None,
    dropout: float | None = None,
    empty_row: EmptyRow = "nan",
    kv_map: KvMap = "repeated",
    edit_raw_scores: Edit | None = None,
    edit_scores: Edit | None = None,
    edit_weights: Edit | None = None,
) -> Attention:
    """Let each query take the mean of the values, weighted by how well their keys fit it.

    In this order, with ``c`` the soft cap::

        raw_scores = q · kᵀ
        scores     = c · tanh(scale · raw_scores / c) + bias,  -inf where the mask hides
        weights    = normaliser([scores, sinks]) over the keys, columns of sinks dropped
        context    = weights · keep / (1 - dropout) @ v

    Args:
        q: (batch, heads, queries, head_dim); or without batch, or (queries, head_dim) alone.
        k: (batch, kv_heads, keys, head_dim), with as many axes as q; heads = kv_heads · group.
        v: (batch, kv_heads, keys, value_dim). Axes before the heads may be 1 and are broadcast.
        scale: what q·k is multiplied by, a number or an array that broadcasts to the scores;
            None: 1/√head_dim.
        mask: boolean, True = may attend, broadcasts to (batch, heads, queries, keys).
        causal: the corner from which keys after the query are hidden, "top-left" or
            "bottom-right"; True only where queries and keys are as many and so no corner is meant.
        bias: added to the scores; broadcasts to (batch, heads, queries, keys).
        softcap: c above; None: no cap.
        sinks: scores of columns without a value, broadcast to (batch, heads, queries, sinks); one
            learned number a head is ``numbers[:, None, None]``.
        normaliser: a name of `NORMALISERS`, or a `Normaliser`.
        keep: which weights dropout keeps, True = kept, broadcasts to the weights.
        dropout: the probability with which `keep` was drawn; goes with `keep`.
        empty_row: weights of a query that sees nothing: "nan" as the normaliser gives them (0/0
            in softmax), "zero" as the fused kernels of PyTorch, "uniform" over all keys as where
            the fill is finite (``finfo.min``).
        kv_map: "repeated" (neighbouring heads share a kv head), "tiled", or the kv head of each.
        edit_raw_scores: changes q·k.
        edit_scores: changes what enters the normaliser: change the scores, see the output change.
        edit_weights: changes what leaves it.

    Raises:
        InputError: shapes that don't fit, a mask that is not boolean, a corner that is not named.

    Source: Vaswani et al. 2017, "Attention Is All You Need", 3.2.1; kv groups: Ainslie et al.
    2023 (GQA); soft cap: Gemma 2 (2024), 2; sinks: Xiao et al. 2024, "Efficient Streaming Language
    Models with Attention Sinks", 3, and gpt-oss (2025). Elsewhere:
    ``F.scaled_dot_product_attention``, ``eager_attention_forward`` (Hugging Face),
    ``flex_attention`` (edits are its ``score_mod``).

    >>> q, k, v = np.array([[1.0, 0.0]]), np.eye(2), np.array([[10.0], [20.0]])
    >>> attention(q, k, v, scale=1.0).weights.round(3)
    array([[0.731, 0.269]])
    >>> np.asarray(attention(q, k, v, edit_scores=np.zeros_like))
    array([[15.]])
    """
    parts = Parts.of(
        q,
        k,
        v,
        scale=scale,
        mask=mask,
        causal=causal,
        bias=bias,
        softcap=softcap,
        sinks=sinks,
        normaliser=normaliser,
        keep=keep,
        dropout=dropout,
        empty_row=empty_row,
        kv_map=kv_map,
    )
    return _computed(parts, edit_raw_scores, edit_scores, edit_weights)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")  # NaN and infinity pass through
def _computed(
    parts: Parts, edit_raw_scores: Edit | None, edit_scores: Edit | None, edit_weights: Edit | None
) -> Attention:
    """Return every step, in the order of the formula."""
    raw = _edited("edit_raw_scores", edit_raw_scores, parts.raw_scores())
    scores = _edited("edit_scores", edit_scores, parts.scores(raw))
    weights = weigh(scores, parts.sinks, parts.normaliser, parts.empty_row)
    weights = _edited("edit_weights", edit_weights, weights)
    dropped = weights if parts.kept is None else weights * parts.kept
    return Attention(
        raw,
        scores,
        weights,
        dropped,
        dropped @ parts.v,
        row_logsumexp(scores, parts.sinks, parts.normaliser),
    )


def _edited(stage: str, edit: Edit | None, value: AnyFloat) -> AnyFloat:
    if edit is None:
        return value
    changed = np.asarray(edit(value.copy()))
    if changed.shape != value.shape or changed.dtype.kind not in "fiu":
        raise InputError(
            DOING,
            f"{stage} returned an array of type {changed.dtype} and shape {changed.shape}",
            f"return the changed numbers, of shape {value.shape}",
        )
    return changed.astype(np.float64)
