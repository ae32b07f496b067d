"""Masks by where keys stand, True = may attend: causal, band, window, prefix.

Each mask has the shape that broadcasts to the scores; `by_token` has those by padding and document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import InputError
from attnscope.reference.axes import Visible
from attnscope.reference.given import array, choice, count
from attnscope.reference.masks.alignment import Alignment, first_place

__all__ = [
    "Sides",
    "band",
    "causal",
    "prefix",
    "window",
]

Sides: TypeAlias = Literal["past", "both"]
"""Whether a window reaches back alone (and so is causal), or in both directions."""

PerSample: TypeAlias = int | Sequence[int] | NDArray[np.integer]
"""One number for all samples, or one for each."""


def causal(queries: int, keys: int | None = None, alignment: Alignment | None = None) -> Visible:
    """Let each query see the keys up to its own place: (queries, keys), True = may attend.

    "top-left": key <= query. "bottom-right": key <= query + keys - queries, which is right where
    the queries are the last ones of a longer sequence, as in decoding with a cache. The two differ
    only where queries and keys differ in number, and then must be named.

    Source: Vaswani et al. 2017, 3.2.3. Elsewhere: top-left is ``is_causal=True`` of
    ``F.scaled_dot_product_attention`` and flash-attn before 2.1; bottom-right is
    ``causal_lower_right`` of PyTorch and flash-attn since 2.1.

    Raises:
        InputError: the numbers differ and no corner is named, there is no such corner, or they
            are no whole numbers from 0 on.

    >>> causal(2, 3, "bottom-right").astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    """
    keys = queries if keys is None else keys
    return band(queries, keys, None, 0, alignment)


def band(
    queries: int,
    keys: int,
    left: int | None,
    right: int | None,
    alignment: Alignment | None = None,
) -> Visible:
    """Let each query see `left` keys before its place and `right` after it: (queries, keys).

    The place of query i is key i ("top-left") or i + keys - queries ("bottom-right");
    place - left <= key <= place + right, None = no limit on that side.

    Elsewhere: ``window_size=(left, right)`` of flash-attn, there with -1 for no limit.

    Raises:
        InputError: as `causal`, or a negative reach.

    >>> band(3, 3, 1, 0).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    for name, reach in (("left", left), ("right", right)):
        if reach is not None:
            count("making a mask", name, reach, least=0)
    place = first_place(queries, keys, alignment) + np.arange(queries)[:, None]
    ahead = np.arange(keys) - place
    seen = np.ones((queries, keys), dtype=bool)
    if left is not None:
        seen &= ahead >= -left
    if right is not None:
        seen &= ahead <= right
    return seen


def window(
    size: int,
    queries: int,
    keys: int | None = None,
    *,
    sides: Sides,
    alignment: Alignment | None = None,
) -> Visible:
    """Let each query see the keys nearer than `size` to its place: (queries, keys).

    "past": 0 <= place - key < size, so `size` keys, its own among them, and causal;
    "both": |place - key| < size, so 2·size - 1 keys.

    Source: Beltagy et al. 2020, "Longformer", 3.1 (both sides, there size - 1 on each); Jiang et
    al. 2023, "Mistral 7B", 2 (past). Elsewhere: ``sliding_window=size`` of Hugging Face is "past",
    ``window_size=(size - 1, 0)`` of flash-attn, too.

    Raises:
        InputError: as `causal`; a size below 1, or sides of another name.

    >>> window(2, 3, sides="past").astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    >>> window(2, 3, sides="both").astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]])
    """
    doing = "making a window mask"
    size = count(doing, "the size", size)
    choice(doing, "sides", sides, ("past", "both"))
    keys = queries if keys is None else keys
    return band(queries, keys, size - 1, 0 if sides == "past" else size - 1, alignment)


def prefix(
    length: PerSample, queries: int, keys: int | None = None, alignment: Alignment | None = None
) -> Visible:
    """Let every query see the first `length` keys, and beyond them only the keys up to its place.

    (queries, keys) for one number, (batch, 1, queries, keys) for one of each sample.

    Source: Raffel et al. 2020, "Exploring the Limits of Transfer Learning" (T5), fig. 4,
    "causal with prefix". Elsewhere: ``token_type_ids`` of PaliGemma and Gemma 3, prefix LM.

    Raises:
        InputError: as `causal`; or lengths that are no whole numbers from 0 on.

    >>> prefix(2, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    keys = queries if keys is None else keys
    edge = causal(queries, keys, alignment)
    each = array("making a prefix mask", "length", length)
    if each.ndim > 1 or each.dtype.kind not in "iu" or (each < 0).any():
        raise InputError(
            "making a prefix mask",
            f"lengths {each.tolist()} of type {each.dtype} and shape {each.shape}",
            "give one whole number from 0 on, or one for each sample",
        )
    early = np.arange(keys) < each[..., None]  # (keys) or (batch, keys)
    shown = early[:, None, None, :] if early.ndim > 1 else early
    return np.asarray(edge | shown)
