"""Masks as boolean arrays, True = may attend, each of the shape that broadcasts to the scores.

They are plain arrays: ``causal(5, 5) & padding(lengths, 5)`` hides what either hides, and ``|``
shows what either shows. What other libraries mean by a mask is converted in `conventions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import InputError
from attnscope.reference.axes import Visible

__all__ = [
    "Alignment",
    "Sides",
    "band",
    "causal",
    "document_ids",
    "documents",
    "padding",
    "padding_from_ids",
    "prefix",
    "window",
]

Alignment: TypeAlias = Literal["top-left", "bottom-right"]
"""Where the first query stands: at the first key, or so that the last query is at the last key."""

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
        InputError: the numbers differ and no corner is named, or there is no such corner.

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
    if min(left or 0, right or 0) < 0:
        raise InputError(
            "making a mask", f"a reach of ({left}, {right})", "give numbers from 0 on, or None"
        )
    place = np.arange(queries)[:, None] + first_place(queries, keys, alignment)
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
    if size < 1 or sides not in {"past", "both"}:
        raise InputError(
            "making a window mask",
            f"the size {size} on the sides {sides!r}",
            'give a size from 1 on, and "past" or "both"',
        )
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
        InputError: as `causal`; or lengths that are no whole numbers.

    >>> prefix(2, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    keys = queries if keys is None else keys
    each = np.asarray(length)
    if each.ndim > 1 or each.dtype.kind not in "iu":
        raise InputError(
            "making a prefix mask",
            f"lengths of type {each.dtype} and shape {each.shape}",
            "give one whole number, or one for each sample",
        )
    early = np.arange(keys) < each[..., None]  # (keys) or (batch, keys)
    shown = early[:, None, None, :] if early.ndim > 1 else early
    return np.asarray(causal(queries, keys, alignment) | shown)


def padding(
    lengths: Sequence[int] | NDArray[np.integer],
    keys: int,
    side: Literal["right", "left"] = "right",
) -> Visible:
    """Show the real tokens of each sample and hide its padding: (batch, 1, 1, keys).

    `side` is where the padding stands: "right" shows the first `lengths[i]` keys, "left" the last.
    It hides keys alone; ``mask.swapaxes(-1, -2)`` is the same for the queries of self-attention,
    and hiding those makes rows that see nothing.

    Raises:
        InputError: lengths that are no whole numbers, or are longer than `keys`; another side.

    >>> padding([1, 3], 3)[:, 0, 0].astype(int)
    array([[1, 0, 0],
           [1, 1, 1]])
    """
    real = np.asarray(lengths)
    whole = real.ndim == 1 and real.dtype.kind in "iu"
    if not whole or (real < 0).any() or (real > keys).any() or side not in {"right", "left"}:
        raise InputError(
            "making a padding mask",
            f"the lengths {real.tolist()} for {keys} keys, padded on the side {side!r}",
            'give one whole number from 0 to keys for each sample, and "right" or "left"',
        )
    place = np.arange(keys) if side == "right" else np.arange(keys)[::-1]
    return np.asarray((place < real[:, None])[:, None, None, :])


def padding_from_ids(ids: NDArray[np.integer], pad: int) -> Visible:
    """Show the tokens whose id is not `pad`: (batch, keys) of ids to (batch, 1, 1, keys).

    A token of that id inside the text is hidden, too; where pad and end of text share one id, as
    in GPT-2, use the lengths and `padding`.

    Raises:
        InputError: not (batch, keys) of whole numbers.

    >>> padding_from_ids(np.array([[5, 7, 0]]), pad=0)[0, 0, 0]
    array([ True,  True, False])
    """
    given = _ids("making a padding mask from ids", ids)
    return np.asarray((given != pad)[:, None, None, :])


def documents(
    query_ids: NDArray[np.integer], key_ids: NDArray[np.integer] | None = None
) -> Visible:
    """Let tokens see those of the same document: ids (batch, length) to (batch, 1, queries, keys).

    Without `key_ids` queries and keys are the same tokens. Sequence packing also wants `causal`.

    Source: Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination", 4.
    Elsewhere: ``cu_seqlens`` of flash-attn, block-diagonal bias of xformers, document mask of
    FlexAttention.

    Raises:
        InputError: not (batch, length) of whole numbers, or the batches differ.

    >>> documents(np.array([[0, 0, 1]]))[0, 0].astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    doing = "making a document mask"
    asking = _ids(doing, query_ids)
    asked = asking if key_ids is None else _ids(doing, key_ids)
    if len(asking) != len(asked):
        raise InputError(
            doing,
            f"ids of shape {asking.shape} and {asked.shape}",
            "give both the same number of samples",
        )
    return np.asarray((asking[:, :, None] == asked[:, None, :])[:, None])


def document_ids(lengths: Sequence[int]) -> NDArray[np.int64]:
    """Return the ids of documents laid end to end in one sample: (1, sum of lengths).

    ``np.diff(cu_seqlens)`` are the lengths of flash-attn's packed form.

    >>> document_ids([2, 1])
    array([[0, 0, 1]])
    """
    return np.repeat(np.arange(len(lengths)), lengths)[None]


def first_place(queries: int, keys: int, alignment: Alignment | None) -> int:
    """Return the key at which the first query stands; see `Alignment`.

    Raises:
        InputError: the numbers differ and no corner is named, or there is no such corner.

    >>> first_place(2, 5, "bottom-right")
    3
    """
    doing = "aligning queries with keys"
    if alignment not in {"top-left", "bottom-right", None}:
        raise InputError(doing, f"the corner {alignment!r}", 'say "top-left" or "bottom-right"')
    if alignment is None and queries != keys:
        raise InputError(
            doing,
            f"{queries} queries and {keys} keys, and no corner",
            'say "top-left" (query i stands at key i, as is_causal=True of PyTorch) or '
            '"bottom-right" (the last query stands at the last key, as with a cache)',
        )
    return keys - queries if alignment == "bottom-right" else 0


def _ids(doing: str, ids: NDArray[np.integer]) -> NDArray[np.integer]:
    given = np.asarray(ids)
    if given.ndim != 2 or given.dtype.kind not in "iu":
        raise InputError(
            doing,
            f"an array of type {given.dtype} and shape {given.shape}",
            "give whole numbers (batch, length)",
        )
    return given
