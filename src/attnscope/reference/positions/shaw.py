"""Shaw's relative positions: a learned vector for each clipped distance, added to keys and values.

The direct form makes a key for each pair of positions. Here the two additions are written apart
from the attention that they join: one to the scores, one to the context.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import count, fit, gradient_of, real, whole
from attnscope.reference.positions.distance import whole_distance

__all__ = [
    "shaw_context",
    "shaw_context_backward",
    "shaw_rows",
    "shaw_scores",
    "shaw_scores_backward",
]

Index: TypeAlias = tuple[Int64[np.ndarray, " ..."], ...]
Picked: TypeAlias = Float64[np.ndarray, "... queries keys width"]

_SCORES = "scoring Shaw's relative keys"
_CONTEXT = "summing Shaw's relative values"


def shaw_rows(
    query_positions: ArrayLike, key_positions: ArrayLike, *, before: int, after: int
) -> Int64[np.ndarray, "*batch queries keys"]:
    """Return the row of the table that belongs to each pair of positions.

        row[i, j] = clip(position j - position i, -before, after) + before

    Args:
        query_positions: (*batch, queries), integers, in tokens.
        key_positions: (*batch, keys), integers, in tokens.
        before: distance, in tokens, beyond which all earlier keys are alike.
        after: the same for later keys; the paper has one k for both.

    Raises:
        InputError: positions that are not integers or don't fit, or a negative distance.

    Source: Shaw et al. 2018, "Self-Attention with Relative Position Representations", section 3.2.

    Elsewhere: `relative_key` of Wav2Vec2-BERT in transformers (`left_max_position_embeddings`,
    `right_max_position_embeddings`); tensor2tensor's `max_relative_position`. BERT's once counted
    position i - position j, which reads the table from its other end.

    Example:
        >>> shaw_rows([0, 3], [0, 1, 2, 3], before=1, after=2)
        array([[1, 2, 3, 3],
               [0, 0, 0, 1]])
    """
    doing = "looking up Shaw's relative positions"
    before, after = (
        count(doing, name, value, least=0) for name, value in (("before", before), ("after", after))
    )
    distance = whole_distance(doing, query_positions, key_positions)
    return np.asarray(np.clip(distance, -before, after) + before)


def shaw_scores(
    q: ArrayLike, table: ArrayLike, rows: ArrayLike
) -> Float64[np.ndarray, "... queries keys"]:
    """Return what relative keys add to q·k, before the scale.

        out[..., i, j] = q[..., i, :] · table[rows[i, j], :]
        scores         = scale · (q·k + out)

    Args:
        q: (..., queries, head_dim).
        table: (before + 1 + after, head_dim) for all heads, or (heads, before + 1 + after,
            head_dim) where the axis before queries is the heads.
        rows: (queries, keys) or (batch, queries, keys) where the first axis of q is the batch, from
            `shaw_rows`.

    Raises:
        InputError: shapes that don't fit, or a row that the table hasn't.

    Source: Shaw et al. 2018, equation 4.

    Elsewhere: `distance_embedding` in transformers; "Rel. K" elsewhere.

    Example:
        >>> rows = shaw_rows([0, 1], [0, 1], before=1, after=1)
        >>> shaw_scores([[1.0], [10.0]], [[-1.0], [0.0], [1.0]], rows)
        array([[  0.,   1.],
               [-10.,   0.]])
    """
    q, picked, _ = _keys(_SCORES, q, table, rows)
    return np.asarray(np.einsum("...id,...ijd->...ij", q, picked))


def shaw_scores_backward(
    gradient: ArrayLike, q: ArrayLike, table: ArrayLike, rows: ArrayLike
) -> tuple[Float64[np.ndarray, "... queries head_dim"], Float64[np.ndarray, " ..."]]:
    """Return the gradients of q and of the table from that of `shaw_scores`.

        d_q[..., i, :]  = Σⱼ gradient[..., i, j] · table[rows[i, j], :]
        d_table[r, :]   = Σ gradient[..., i, j] · q[..., i, :] over all pairs of row r

    Args:
        gradient: that of the addition to q·k, (..., queries, keys).
        q: as in `shaw_scores`.
        table: as in `shaw_scores`.
        rows: as in `shaw_scores`.

    Raises:
        InputError: as in `shaw_scores`, or a gradient of another shape.

    Source: the derivative of Shaw et al. 2018, equation 4.

    Elsewhere: autograd's.

    Example:
        >>> rows = shaw_rows([0], [0, 1], before=0, after=1)
        >>> d_q, d_table = shaw_scores_backward([[1.0, 2.0]], [[3.0]], [[5.0], [7.0]], rows)
        >>> d_q, d_table
        (array([[19.]]), array([[3.],
               [6.]]))
    """
    doing = "taking the gradients of Shaw's relative keys"
    q, picked, index = _keys(doing, q, table, rows)
    gradient = gradient_of(doing, gradient, (*q.shape[:-1], picked.shape[-2]))
    d_q = np.einsum("...ij,...ijd->...id", gradient, picked)
    return d_q, _collect(gradient[..., None] * q[..., :, None, :], np.shape(table), index)


def shaw_context(
    weights: ArrayLike, table: ArrayLike, rows: ArrayLike
) -> Float64[np.ndarray, "... queries value_dim"]:
    """Return what relative values add to the context.

        out[..., i, :] = Σⱼ weights[..., i, j] · table[rows[i, j], :]
        context        = weights · v + out

    Args:
        weights: (..., queries, keys).
        table: (before + 1 + after, value_dim), or one for each head, as in `shaw_scores`.
        rows: as in `shaw_scores`.

    Raises:
        InputError: shapes that don't fit, or a row that the table hasn't.

    Source: Shaw et al. 2018, equation 3.

    Elsewhere: left out by most, since the paper's section 4.3 finds that keys alone suffice.

    Example:
        >>> rows = shaw_rows([0, 1], [0, 1], before=1, after=1)
        >>> shaw_context([[0.5, 0.5], [0.25, 0.75]], [[-1.0], [0.0], [1.0]], rows)
        array([[ 0.5 ],
               [-0.25]])
    """
    weights, picked, _ = _values(_CONTEXT, weights, table, rows)
    return np.asarray(np.einsum("...ij,...ijd->...id", weights, picked))


def shaw_context_backward(
    gradient: ArrayLike, weights: ArrayLike, table: ArrayLike, rows: ArrayLike
) -> tuple[Float64[np.ndarray, "... queries keys"], Float64[np.ndarray, " ..."]]:
    """Return the gradients of the weights and of the table from that of `shaw_context`.

        d_weights[..., i, j] = gradient[..., i, :] · table[rows[i, j], :]
        d_table[r, :]        = Σ weights[..., i, j] · gradient[..., i, :] over all pairs of row r

    Args:
        gradient: that of the addition to the context, (..., queries, value_dim).
        weights: as in `shaw_context`.
        table: as in `shaw_context`.
        rows: as in `shaw_context`.

    Raises:
        InputError: as in `shaw_context`, or a gradient of another shape.

    Source: the derivative of Shaw et al. 2018, equation 3.

    Elsewhere: autograd's.

    Example:
        >>> rows = shaw_rows([0], [0, 1], before=0, after=1)
        >>> shaw_context_backward([[2.0]], [[0.25, 0.75]], [[5.0], [7.0]], rows)
        (array([[10., 14.]]), array([[0.5],
               [1.5]]))
    """
    doing = "taking the gradients of Shaw's relative values"
    weights, picked, index = _values(doing, weights, table, rows)
    gradient = gradient_of(doing, gradient, (*weights.shape[:-1], picked.shape[-1]))
    d_weights = np.einsum("...id,...ijd->...ij", gradient, picked)
    d_picked = weights[..., None] * gradient[..., :, None, :]
    return d_weights, _collect(d_picked, np.shape(table), index)


def _keys(
    doing: str, q: ArrayLike, table: ArrayLike, rows: ArrayLike
) -> tuple[Float64[np.ndarray, "... queries head_dim"], Picked, Index]:
    """Return q, the row of the table for each pair, and what the table was indexed with."""
    q, table, index = _indexed(doing, ("q", q), table, rows)
    picked = table[index]
    fit(
        doing,
        {"q": q.shape, "table": table.shape, "rows": np.shape(rows)},
        "give q (..., queries, head_dim), a table of head_dim columns, rows (queries, keys)",
        holds=q.shape[-2] == picked.shape[-3] and q.shape[-1] == picked.shape[-1],
    )
    return q, picked, index


def _values(
    doing: str, weights: ArrayLike, table: ArrayLike, rows: ArrayLike
) -> tuple[Float64[np.ndarray, "... queries keys"], Picked, Index]:
    """Return the same for the weights in place of q."""
    weights, table, index = _indexed(doing, ("weights", weights), table, rows)
    picked = table[index]
    fit(
        doing,
        {"weights": weights.shape, "rows": np.shape(rows)},
        "give weights (..., queries, keys) and rows (queries, keys)",
        holds=weights.shape[-2:] == picked.shape[-3:-1],
    )
    return weights, picked, index


def _indexed(
    doing: str, named: tuple[str, ArrayLike], table: ArrayLike, rows: ArrayLike
) -> tuple[Float64[np.ndarray, " ..."], Float64[np.ndarray, " ..."], Index]:
    """Return q or the weights, the table, and what the table is indexed with."""
    name, given = named
    found = real(doing, name, given, axes=2)
    table = real(doing, "the table", table, axes=2)
    return found, table, _index(doing, table, rows, found.shape[:-2])


def _index(
    doing: str, table: Float64[np.ndarray, " ..."], rows: ArrayLike, leading: tuple[int, ...]
) -> Index:
    """Return what to index the table with: arrays that broadcast to (*leading, queries, keys)."""
    index = whole(doing, "rows", rows, axes=2)
    shapes = {"table": table.shape, "rows": index.shape, "leading axes": leading}
    per_head = table.ndim == len(("heads", "rows", "width"))
    per_sample = index.ndim == len(("batch", "queries", "keys"))
    fit(
        doing,
        shapes,
        "give a table (rows, width) or (heads, rows, width), and rows (queries, keys) or "
        "(batch, queries, keys), where q or the weights have these leading axes",
        holds=table.ndim - per_head == len(("rows", "width"))
        and index.ndim - per_sample == len(("queries", "keys"))
        and len(leading) >= per_head + per_sample
        and (not per_head or leading[-1] == len(table))
        and (not per_sample or len(index) in {1, leading[0]}),
    )
    if index.size and not 0 <= index.min() <= index.max() < table.shape[-2]:
        raise InputError(
            doing,
            f"rows {index.min()} to {index.max()} of a table of {table.shape[-2]}",
            "give a table of before + 1 + after rows",
        )
    if per_sample:
        between = (1,) * (len(leading) - 1)
        index = index.reshape(len(index), *between, *index.shape[-2:])
    return (np.arange(len(table))[:, None, None], index) if per_head else (index,)


def _collect(
    d_picked: Picked,
    shape: tuple[int, ...],
    index: Index,
) -> Float64[np.ndarray, " ..."]:
    """Sum the gradients of the picked rows into the rows that they were picked from."""
    out = np.zeros(shape)
    np.add.at(out, tuple(np.broadcast_to(one, d_picked.shape[:-1]) for one in index), d_picked)
    return out
