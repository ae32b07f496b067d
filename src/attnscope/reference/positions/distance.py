"""How far a key stands from a query: the one number that every relative position is made of.

Positions are counted within the sequence of the keys. In a full pass queries and keys both have
0, 1, 2, …; while decoding with a cache the queries are the last ones, ``np.arange(keys - queries,
keys)``. Giving positions, and not lengths, leaves nothing to guess.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import fit, real, whole

__all__ = ["real_distance", "whole_distance"]


def whole_distance(
    doing: str, query_positions: ArrayLike, key_positions: ArrayLike
) -> Int64[np.ndarray, "*batch queries keys"]:
    """Return the position of each key less that of each query, in whole tokens.

        distance[i, j] = key_positions[j] - query_positions[i]     (negative: the key is earlier)

    Axes: query_positions (*batch, queries), key_positions (*batch, keys), integers; leading axes
    broadcast.

    Raises:
        InputError: not integers, no axis, or leading axes that don't broadcast.

    Example:
        >>> whole_distance("measuring", [0, 1], [0, 1, 2])
        array([[ 0,  1,  2],
               [-1,  0,  1]])
    """
    queries = whole(doing, "query_positions", query_positions, axes=1)
    keys = whole(doing, "key_positions", key_positions, axes=1)
    _check(doing, queries.shape, keys.shape)
    return np.asarray(keys[..., None, :] - queries[..., :, None])


def real_distance(
    doing: str, query_positions: ArrayLike, key_positions: ArrayLike
) -> Float64[np.ndarray, "*batch queries keys"]:
    """Return the same for positions that may lie between tokens, as interpolation makes them.

    Raises:
        InputError: not finite real numbers, no axis, or leading axes that don't broadcast.

    Example:
        >>> real_distance("measuring", [0.5], [0, 1])
        array([[-0.5,  0.5]])
    """
    queries = real(doing, "query_positions", query_positions, axes=1)
    keys = real(doing, "key_positions", key_positions, axes=1)
    for name, found in (("query_positions", queries), ("key_positions", keys)):
        if not np.isfinite(found).all():
            first = found[~np.isfinite(found)][0]
            raise InputError(doing, f"{name} holds {first}", "give finite positions")
    _check(doing, queries.shape, keys.shape)
    return np.asarray(keys[..., None, :] - queries[..., :, None])


def _check(doing: str, queries: tuple[int, ...], keys: tuple[int, ...]) -> None:
    pairs = zip(reversed(queries[:-1]), reversed(keys[:-1]), strict=False)
    fit(
        doing,
        {"query_positions": queries, "key_positions": keys},
        "give both the same leading axes, or 1 where one is for all",
        holds=all(a == b or 1 in {a, b} for a, b in pairs),
    )
