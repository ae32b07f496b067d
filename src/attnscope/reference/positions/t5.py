"""T5's relative positions: distances fall into buckets, and each head learns a bias for each.

Near keys have a bucket each, far ones share buckets that widen with the logarithm of the distance.
Which end of a distance counts as positive, and whether later keys have buckets of their own, is
what ports get wrong.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import count, fit, flag, real, whole
from attnscope.reference.positions.distance import whole_distance

__all__ = ["t5_bias", "t5_bias_backward", "t5_buckets"]

_DOING = "sorting distances into T5's buckets"


def t5_buckets(
    distance: ArrayLike,
    *,
    bidirectional: bool,
    buckets: int = 32,
    max_distance: int = 128,
) -> Int64[np.ndarray, " ..."]:
    """Return the bucket of each distance.

        bidirectional:  n = buckets / 2, first = n where the key is later, else 0, d = |distance|
        otherwise:      n = buckets,     first = 0,       d = max(-distance, 0): later keys like 0
        near = ⌊n / 2⌋
        bucket = first + d                                                            d < near
        bucket = first + min(n - 1, near + ⌊(n - near) · ln(d / near) / ln(max_distance / near)⌋)

    Args:
        distance: position of the key less that of the query, in tokens, integers of any shape.
        bidirectional: True in encoders, False in decoders.
        buckets: their number, even where bidirectional.
        max_distance: all keys that far away, or further, share the last bucket.

    Raises:
        InputError: distances that are not integers, too few buckets, or a max_distance that the
            near buckets already cover.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified
        Text-to-Text Transformer", section 2.1; the formula is in the code of Mesh TensorFlow.

    Elsewhere: `_relative_position_bucket` of T5, mT5, UMT5, LongT5 in transformers, with
    `relative_attention_num_buckets` and `relative_attention_max_distance`. They take the logarithm
    in float32, so that a distance on the very edge of two far buckets may fall into the other one;
    with the sizes of T5 none does.

    Example:
        >>> t5_buckets([-200, -20, -2, 0, 2, 20, 200], bidirectional=True)
        array([15, 10,  2,  0, 18, 26, 31])
        >>> t5_buckets([-200, -20, -2, 0, 2], bidirectional=False)
        array([31, 17,  2,  0,  0])
    """
    distance = whole(_DOING, "distance", distance)
    ways = 2 if flag(_DOING, "bidirectional", bidirectional) else 1
    buckets = count(_DOING, "buckets", buckets, least=2 * ways)
    if buckets % ways:
        raise InputError(
            _DOING, f"{buckets} buckets for two directions", "give an even number of buckets"
        )
    each = buckets // ways
    near = each // 2
    max_distance = count(_DOING, "max_distance", max_distance)
    if max_distance <= near:
        raise InputError(
            _DOING,
            f"max_distance is {max_distance}, and the near buckets reach to {near} already",
            f"give a max_distance above {near}, or fewer buckets",
        )
    away = np.abs(distance) if bidirectional else np.maximum(-distance, 0)
    ratio = np.log(np.maximum(away, near) / near) / np.log(max_distance / near)
    far = np.minimum(near + (ratio * (each - near)).astype(np.int64), each - 1)
    first = each * (distance > 0) if bidirectional else 0
    return np.asarray(first + np.where(away < near, away, far))


def t5_bias(
    table: ArrayLike,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    bidirectional: bool,
    max_distance: int = 128,
) -> Float64[np.ndarray, "*batch heads queries keys"]:
    """Return what T5 adds to its scores, which are not scaled.

        bias[h, i, j] = table[bucket(position j - position i), h]

    Args:
        table: (buckets, heads), learned, in units of score; one for all layers of a stack.
        query_positions: (*batch, queries), integers, in tokens.
        key_positions: (*batch, keys), integers, in tokens.
        bidirectional: as in `t5_buckets`.
        max_distance: as in `t5_buckets`.

    Raises:
        InputError: a table that is not (buckets, heads), or as in `t5_buckets`.

    Source: Raffel et al. 2020, section 2.1.

    Elsewhere: `compute_bias` with `relative_attention_bias.weight` in transformers.

    Example:
        >>> t5_bias([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2], [0, 1, 2], bidirectional=False)[0]
        array([[0., 0., 0.],
               [1., 0., 0.],
               [2., 1., 0.]])
    """
    doing = "making T5's bias"
    table = real(doing, "the table", table)
    fit(doing, {"table": table.shape}, "give (buckets, heads)", holds=table.ndim == len("bh"))
    distance = whole_distance(doing, query_positions, key_positions)
    index = t5_buckets(
        distance, bidirectional=bidirectional, buckets=len(table), max_distance=max_distance
    )
    return np.moveaxis(table[index], -1, -3)


def t5_bias_backward(
    gradient: ArrayLike,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    buckets: int = 32,
    bidirectional: bool,
    max_distance: int = 128,
) -> Float64[np.ndarray, "buckets heads"]:
    """Return the gradient of the table: each bucket collects from all pairs that fell into it.

        d_table[b, h] = Σ gradient[..., h, i, j] over the pairs (i, j) of bucket b

    Args:
        gradient: that of the bias, (*batch, heads, queries, keys); it may have more leading axes
            than the positions.
        query_positions: as in `t5_bias`.
        key_positions: as in `t5_bias`.
        buckets: rows of the table.
        bidirectional: as in `t5_buckets`.
        max_distance: as in `t5_buckets`.

    Raises:
        InputError: as in `t5_bias`, or a gradient of another shape.

    Source: the derivative of a lookup.

    Elsewhere: the backward of `torch.nn.Embedding`.

    Example:
        >>> t5_bias_backward(np.ones((1, 3, 3)), *[[0, 1, 2]] * 2, buckets=4, bidirectional=False)
        array([[6.],
               [2.],
               [1.],
               [0.]])
    """
    doing = "taking the gradient of T5's bias"
    gradient = real(doing, "the gradient", gradient, axes=3)
    distance = whole_distance(doing, query_positions, key_positions)
    index = t5_buckets(
        distance, bidirectional=bidirectional, buckets=buckets, max_distance=max_distance
    )
    per_pair = np.moveaxis(gradient, -3, -1)  # (*batch, queries, keys, heads)
    fit(
        doing,
        {"gradient": gradient.shape, "distances": distance.shape},
        "give a gradient (*batch, heads, queries, keys)",
        holds=per_pair.shape[:-1][-distance.ndim :] == distance.shape,
    )
    table = np.zeros((buckets, gradient.shape[-3]))
    np.add.at(table, np.broadcast_to(index, per_pair.shape[:-1]), per_pair)
    return table
