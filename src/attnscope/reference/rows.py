"""From scores to weights, one row at a time: sinks beside the keys, and rows that see nothing."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from attnscope.reference.axes import PerRow, Scores, Sinks, Weights
from attnscope.reference.normalisers.named import Normaliser, logsumexp

__all__ = ["EmptyRow", "row_logsumexp", "weigh", "weigh_backward"]

EmptyRow: TypeAlias = Literal["nan", "zero", "uniform"]
"""Weights of a query that sees nothing: as the normaliser gives them, 0, or 1/keys each."""


def weigh(
    scores: Scores, sinks: Sinks | None, normaliser: Normaliser, empty_row: EmptyRow
) -> Weights:
    """Return the weights over the keys: normalised together with the sinks, which are dropped.

    "nan" leaves empty rows to the normaliser: 0/0 under softmax, 0 under sigmoid or one more sink.
    """
    keys = scores.shape[-1]
    columns = _columns(scores, sinks)
    weights = normaliser.forward(columns, -1)[..., :keys]
    if empty_row == "nan":
        return weights
    return np.where(_empty(columns), 0.0 if empty_row == "zero" else 1.0 / max(keys, 1), weights)


def weigh_backward(
    scores: Scores,
    sinks: Sinks | None,
    normaliser: Normaliser,
    empty_row: EmptyRow,
    gradient: Weights,
) -> tuple[Scores, Sinks | None]:
    """Return the gradients of scores and sinks (…, queries, sinks) from one of the weights.

    Weights that `empty_row` puts in place are constants: their gradient is 0.
    """
    keys = scores.shape[-1]
    columns = _columns(scores, sinks)
    none = np.zeros((*gradient.shape[:-1], columns.shape[-1] - keys))
    over_all = np.concatenate([gradient, none], axis=-1)
    result = normaliser.backward(columns, normaliser.forward(columns, -1), over_all, -1)
    if empty_row != "nan":
        result = np.where(_empty(columns), 0.0, result)
    return result[..., :keys], None if sinks is None else result[..., keys:]


def row_logsumexp(scores: Scores, sinks: Sinks | None, normaliser: Normaliser) -> PerRow:
    """Return log Σ exp over keys and sinks, the implicit sink of softmax-off-by-one among them."""
    total = logsumexp(_columns(scores, sinks))
    return np.logaddexp(total, 0.0) if normaliser.name == "softmax-off-by-one" else total


def _columns(scores: Scores, sinks: Sinks | None) -> Scores:
    if sinks is None:
        return scores
    wide = np.broadcast_to(sinks, (*scores.shape[:-1], sinks.shape[-1]))
    return np.concatenate([scores, wide], axis=-1)


def _empty(columns: Scores) -> np.ndarray:
    return np.asarray(np.isneginf(columns).all(-1, keepdims=True))
