"""Masks by what the tokens are: padding, and documents that are packed into one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import InputError
from attnscope.reference.axes import Visible
from attnscope.reference.given import array, choice, count, whole

__all__ = ["document_ids", "documents", "padding", "padding_from_ids"]


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
    doing = "making a padding mask"
    keys = count(doing, "keys", keys, least=0)
    choice(doing, "the side", side, ("right", "left"))
    real = array(doing, "lengths", lengths)
    if real.ndim != 1 or real.dtype.kind not in "iu" or (real < 0).any() or (real > keys).any():
        raise InputError(
            doing,
            f"the lengths {real.tolist()} for {keys} keys",
            "give one whole number from 0 to keys for each sample",
        )
    place = np.arange(keys) if side == "right" else np.arange(keys)[::-1]
    return np.asarray((place < real[:, None])[:, None, None, :])


def padding_from_ids(ids: NDArray[np.integer], pad: int) -> Visible:
    """Show the tokens whose id is not `pad`: (batch, keys) of ids to (batch, 1, 1, keys).

    A token of that id inside the text is hidden, too; where pad and end of text share one id, as
    in GPT-2, use the lengths and `padding`.

    Raises:
        InputError: not (batch, keys) of whole numbers, or a pad that is none.

    >>> padding_from_ids(np.array([[5, 7, 0]]), pad=0)[0, 0, 0]
    array([ True,  True, False])
    """
    doing = "making a padding mask from ids"
    given = _ids(doing, ids)
    padded = whole(doing, "pad", pad)
    if padded.ndim:
        raise InputError(doing, f"pad has the shape {padded.shape}", "give one token id")
    return np.asarray((given != padded)[:, None, None, :])


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

    Raises:
        InputError: lengths that are no whole numbers from 0 on.

    >>> document_ids([2, 1])
    array([[0, 0, 1]])
    """
    given = array("numbering documents", "lengths", lengths)
    if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or (given < 0).any())):
        raise InputError(
            "numbering documents",
            f"lengths {given.tolist()}",
            "give one whole number from 0 on for each document",
        )
    return np.repeat(np.arange(len(given)), given.astype(np.int64))[None]


def _ids(doing: str, ids: NDArray[np.integer]) -> NDArray[np.integer]:
    given = array(doing, "ids", ids)
    if given.ndim != 2 or given.dtype.kind not in "iu":
        raise InputError(
            doing,
            f"an array of type {given.dtype} and shape {given.shape}",
            "give whole numbers (batch, length)",
        )
    return given
