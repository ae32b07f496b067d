"""The gradients of attention, written out: from one of the context to those of all that made it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from attnscope.reference.arrays import sum_to
from attnscope.reference.axes import (
    AnyFloat,
    Bias,
    Context,
    Key,
    Query,
    Scores,
    Sinks,
    Value,
    Weights,
)
from attnscope.reference.given import gradient_of
from attnscope.reference.heads import sum_groups
from attnscope.reference.parts import Options, Parts, backward_options
from attnscope.reference.rows import weigh, weigh_backward

__all__ = ["AttentionGradients", "attention_backward"]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionGradients:
    """The gradient of each argument, in its own shape, and of each step between.

    bias, sinks: None where there was none. scale: also where the default was used.
    raw_scores, scores, weights, dropped_weights: of the steps that `Attention` names so.
    """

    q: Query
    k: Key
    v: Value
    scale: AnyFloat
    bias: Bias | None
    sinks: Sinks | None
    raw_scores: Scores
    scores: Scores
    weights: Weights
    dropped_weights: Weights


def attention_backward(
    gradient: Context, q: Query, k: Key, v: Value, **options: Unpack[Options]
) -> AttentionGradients:
    """Return the gradients of all arguments from the gradient of the context.

    With G that gradient, P the weights after dropout, ``c`` the soft cap, and ∂X for the gradient
    of X; sums run over what was broadcast, and over the query heads that share a kv head::

        ∂v       = Pᵀ G
        ∂P       = G vᵀ
        ∂weights = ∂P · keep / (1 - dropout)
        ∂scores  = the normaliser's own; softmax: weights · (∂weights - Σ_keys weights · ∂weights)
        ∂sinks   = the same over their columns, where ∂weights is 0
        ∂bias    = ∂scores, 0 where the mask hides
        ∂scaled  = ∂bias · (1 - tanh²(scale · raw_scores / c))
        ∂scale   = Σ ∂scaled · raw_scores
        ∂raw     = ∂scaled · scale
        ∂q       = ∂raw k
        ∂k       = ∂rawᵀ q

    The softmax row sum equals Σ G · context, which is what fused kernels keep (D of
    FlashAttention).

    Args:
        gradient: of the context, (batch, heads, queries, value_dim).
        q: as in `attention`; k, v likewise.
        k: see q.
        v: see q.
        options: those of `attention` but the edits, which have no known derivative.

    Raises:
        InputError: as `attention`; or an edit, or a gradient that has not the shape of the context.
        TypeError: an option that `attention` has not.

    Source: Dao et al. 2022, "FlashAttention", appendix B.2. Elsewhere: ``loss.backward()``.

    >>> q, k, v = np.array([[1.0, 0.0]]), np.eye(2), np.array([[10.0], [20.0]])
    >>> gradients = attention_backward(np.ones((1, 1)), q, k, v, scale=1.0)
    >>> gradients.v.ravel().round(3)
    array([0.731, 0.269])
    >>> gradients.q.round(3)
    array([[-1.966,  1.966]])
    """
    backward_options("attention_backward", options)
    parts = Parts.of(q, k, v, **options)
    lead = np.broadcast_shapes(parts.q.shape[:-2], parts.k.shape[:-2], parts.v.shape[:-2])
    shape = (*lead, parts.q.shape[-2], parts.v.shape[-1])
    return _gradients(gradient_of("computing the gradients of attention", gradient, shape), parts)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")  # NaN and infinity pass through
def _gradients(given: Context, parts: Parts) -> AttentionGradients:
    """Return all gradients, in the order of the formula."""
    raw = parts.raw_scores()
    scores = parts.scores(raw)
    weights = weigh(scores, parts.sinks, parts.normaliser, parts.empty_row)
    dropped = weights if parts.kept is None else weights * parts.kept
    of_dropped = given @ parts.v.swapaxes(-1, -2)
    of_weights = of_dropped if parts.kept is None else of_dropped * parts.kept
    of_scores, of_sinks = weigh_backward(
        scores, parts.sinks, parts.normaliser, parts.empty_row, of_weights
    )
    of_biased, of_scaled = parts.scores_backward(raw, of_scores)
    of_raw = of_scaled * parts.scale
    shapes = parts.shapes
    return AttentionGradients(
        q=sum_to(of_raw @ parts.k, shapes["q"]),
        k=_of_kv(of_raw.swapaxes(-1, -2) @ parts.q, shapes["k"], parts),
        v=_of_kv(dropped.swapaxes(-1, -2) @ given, shapes["v"], parts),
        scale=sum_to(of_scaled * raw, shapes["scale"]),
        bias=None if parts.bias is None else sum_to(of_biased, shapes["bias"]),
        sinks=None if of_sinks is None else sum_to(of_sinks, shapes["sinks"]),
        raw_scores=of_raw,
        scores=of_scores,
        weights=of_weights,
        dropped_weights=of_dropped,
    )


def _of_kv(gradient: AnyFloat, shape: tuple[int, ...], parts: Parts) -> AnyFloat:
    """Sum a gradient of expanded kv heads to the shape in which k or v was given."""
    if len(shape) > 2:
        gradient = sum_groups(gradient, shape[-3], parts.kv_map)
    return sum_to(gradient, shape)
