"""The two masks of ``torch.nn.MultiheadAttention``, whose shapes and signs are its own.

``attn_mask`` is (queries, keys) or (batch·heads, queries, keys), ``key_padding_mask`` (batch,
keys) or (keys); each is boolean with True = hidden, or a float that is added to the scores.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from attnscope.errors import InputError
from attnscope.reference.axes import Bias, Hidden, Visible
from attnscope.reference.given import array, count
from attnscope.reference.masks.conventions import from_drop, from_keep, key_rows, split_additive

__all__ = ["from_multihead", "to_attn_mask", "to_key_padding_mask"]

READING = "reading the masks of nn.MultiheadAttention"


def from_multihead(
    attn_mask: object = None, key_padding_mask: object = None, *, heads: int
) -> tuple[Visible | None, Bias | None]:
    """Read both masks: return what they show and what they add, each (batch, heads, queries, keys).

    Axes along which nothing differs have size 1; None: nothing is hidden, or nothing added.
    Floats hide where they are -inf or the smallest number of their type; the rest is the bias.

    Source: ``torch.nn.MultiheadAttention.forward``; sample b and head h meet row b·heads + h of a
    mask with three axes.

    Raises:
        InputError: shapes or types that the module doesn't take, or batches that differ.

    >>> shown, bias = from_multihead(key_padding_mask=[[False, True]], heads=4)
    >>> shown, bias
    (array([[[[ True, False]]]]), None)
    """
    heads = count(READING, "heads", heads)
    shown: list[Visible] = []
    added: list[Bias] = []
    for name, mask in (("attn_mask", attn_mask), ("key_padding_mask", key_padding_mask)):
        if mask is None:
            continue
        given = _with_axes(name, array(READING, name, mask), heads)
        if given.dtype.kind == "f":
            finite, addend = split_additive(given)
            shown.append(finite)
            added.append(addend)
        else:
            shown.append(from_drop(given))
    _same_batch([mask.shape for mask in shown])
    visible = np.asarray(np.logical_and(shown[0], shown[-1]) if shown else True)
    bias = np.asarray(sum(added))
    return None if visible.all() else visible, bias if bias.any() else None


def to_attn_mask(mask: Visible, batch: int, heads: int) -> Hidden:
    """Write a mask as ``attn_mask``, True = hidden: (queries, keys) where it is one for all.

    A mask that differs between samples or heads becomes (batch·heads, queries, keys).

    Raises:
        InputError: not boolean, more than four axes, or another batch or heads.

    >>> to_attn_mask(np.array([[True, False]]), batch=2, heads=4)
    array([[False,  True]])
    """
    doing = "writing attn_mask of nn.MultiheadAttention"
    batch, heads = count(doing, "batch", batch), count(doing, "heads", heads)
    given = from_keep(mask, doing)
    if not 2 <= given.ndim <= 4:
        raise InputError(
            doing, f"a mask of shape {given.shape}", "give (batch, heads, queries, keys)"
        )
    full = given.reshape((1,) * (4 - given.ndim) + given.shape)
    if full.shape[:2] == (1, 1):
        return np.asarray(~full[0, 0])
    if full.shape[0] not in {1, batch} or full.shape[1] not in {1, heads}:
        raise InputError(
            doing,
            f"a mask of shape {given.shape} for a batch of {batch} and {heads} heads",
            "give a mask that broadcasts to (batch, heads, queries, keys)",
        )
    wide = np.broadcast_to(full, (batch, heads, *full.shape[2:]))
    return np.asarray(~wide.reshape(batch * heads, *full.shape[2:]))


def to_key_padding_mask(mask: Visible) -> Bool[np.ndarray, "batch keys"]:
    """Write a mask as ``key_padding_mask``, True = hidden: (batch, keys).

    Raises:
        InputError: not boolean, not four axes, or what it shows depends on head or query.

    >>> to_key_padding_mask(np.array([True, False])[None, None, None])
    array([[False,  True]])
    """
    return ~key_rows(mask, "writing key_padding_mask of nn.MultiheadAttention")


def _with_axes(name: str, given: NDArray[np.generic], heads: int) -> NDArray[np.generic]:
    """Return one of the two masks as (batch or 1, heads or 1, queries or 1, keys)."""
    if name == "attn_mask" and given.ndim == 2:
        return given[None, None]
    if name == "attn_mask" and given.ndim == 3 and len(given) % heads == 0:
        return given.reshape(-1, heads, *given.shape[1:])
    if name == "key_padding_mask" and given.ndim in {1, 2}:
        return np.atleast_2d(given)[:, None, None, :]
    wanted = {
        "attn_mask": f"(queries, keys), or (batch·{heads}, queries, keys)",
        "key_padding_mask": "(batch, keys), or (keys)",
    }
    raise InputError(READING, f"{name} of shape {given.shape}", f"give it as {wanted[name]}")


def _same_batch(shapes: list[tuple[int, ...]]) -> None:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError as error:
        found = " and ".join(str(shape) for shape in shapes)
        raise InputError(
            READING,
            f"masks of shape {found} (batch, heads, queries, keys)",
            "give both for the same batch and the same keys",
        ) from error
