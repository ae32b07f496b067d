"""Masks as other libraries write them, to and from the one convention here: True = may attend.

=============  =============================  ==================================================
name           means                          who
=============  =============================  ==================================================
keep           boolean, True = may attend     ``F.scaled_dot_product_attention``, FlexAttention
drop           boolean, True = hidden         ``torch.nn.MultiheadAttention``, both its masks
additive       float, 0 or -inf (finfo.min)   every one that is added to the scores
tokenizer      1 = real token, 0 = padding    ``attention_mask`` of Hugging Face, (batch, keys)
=============  =============================  ==================================================

``from_…`` reads one of them, ``to_…`` writes it. Nothing is guessed: an array that is written in
another convention than was named is an error, which says what it looks like.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from attnscope.errors import InputError
from attnscope.reference.axes import AnyFloat, Hidden, Visible
from attnscope.reference.given import array, choice

__all__ = [
    "convention_of",
    "from_additive",
    "from_drop",
    "from_keep",
    "from_tokenizer",
    "split_additive",
    "to_additive",
    "to_drop",
    "to_keep",
    "to_tokenizer",
]

Fill: TypeAlias = Literal["-inf", "float16", "bfloat16", "float32", "float64"]
"""What an additive mask hides with: -inf, or the smallest number (``finfo.min``) of a type."""

FILLS = MappingProxyType(
    {
        "-inf": -np.inf,
        "float16": -65504.0,
        "bfloat16": -(2.0 - 2.0**-7) * 2.0**127,
        "float32": float(np.finfo(np.float32).min),
        "float64": float(np.finfo(np.float64).min),
    }
)

HIDING = -1e4
"""An additive mask hides by numbers no larger than this, which BERT of 2018 used: e⁻¹⁰⁰⁰⁰ = 0."""


def convention_of(mask: object) -> str:
    """Say in words how a mask is written, as the errors here do.

    >>> convention_of(np.array([0.0, -np.inf]))
    'a float mask of 0 and -inf (additive)'
    >>> convention_of(np.array([1, 1, 0]))
    'whole numbers 0 and 1 (tokenizer: 1 = real token, or a boolean cast to numbers)'
    >>> convention_of(np.array([0.5, -2.0]))
    'numbers other than 0 and 1, as in a bias'
    """
    given = array("naming the convention of a mask", "the mask", mask)
    if given.dtype.kind == "b":
        return "boolean"
    if given.dtype.kind not in "iuf":
        return f"an array of type {given.dtype}"
    binary = bool(np.isin(given, (0, 1)).all())
    if binary and given.dtype.kind == "f":
        return "a float mask of 0 and 1 (a boolean or tokenizer mask cast to float)"
    if binary:
        return "whole numbers 0 and 1 (tokenizer: 1 = real token, or a boolean cast to numbers)"
    if _additive(given):
        return f"a float mask of 0 and {given.min():.5g} (additive)"
    return "numbers other than 0 and 1, as in a bias"


def from_keep(mask: object, doing: str = "reading a mask, True = may attend") -> Visible:
    """Read a boolean mask, True = may attend: check it and return it.

    Elsewhere: boolean ``attn_mask`` of ``F.scaled_dot_product_attention``.

    Raises:
        InputError: it is not boolean; the message names the convention it looks like.

    >>> from_keep([[True, False]])
    array([[ True, False]])
    """
    given = array(doing, "the mask", mask)
    if given.dtype.kind != "b":
        raise InputError(doing, convention_of(given), _advice(given))
    return given


def to_keep(mask: Visible) -> Visible:
    """Write a boolean mask, True = may attend: check it and return it.

    Raises:
        InputError: `mask` is not boolean.

    >>> to_keep(np.array([True, False]))
    array([ True, False])
    """
    return from_keep(mask, "writing a mask, True = may attend")


def from_drop(mask: object) -> Visible:
    """Read a boolean mask, True = hidden.

    Elsewhere: boolean ``attn_mask`` and ``key_padding_mask`` of ``torch.nn.MultiheadAttention``,
    ``mask`` of Transformer layers; for their shapes see `from_multihead`.

    Raises:
        InputError: it is not boolean.

    >>> from_drop([[False, True]])
    array([[ True, False]])
    """
    return ~from_keep(mask, "reading a mask, True = hidden")


def to_drop(mask: Visible) -> Hidden:
    """Write a boolean mask, True = hidden.

    Raises:
        InputError: `mask` is not boolean.

    >>> to_drop(np.array([True, False]))
    array([False,  True])
    """
    return ~from_keep(mask, "writing a mask, True = hidden")


def from_additive(mask: object) -> Visible:
    """Read a float mask that is added to the scores: 0 shows, -inf or `finfo.min` hides.

    Every number up to -10,000 counts as hiding. (A row that is hidden throughout is NaN under
    -inf and uniform over its keys under a finite fill: ``empty_row`` of `attention`.)

    Raises:
        InputError: not float, or with other numbers: then it is a bias, see `split_additive`.

    >>> from_additive([0.0, -np.inf, np.finfo(np.float32).min])
    array([ True, False, False])
    """
    given = array("reading an additive mask", "the mask", mask)
    if given.dtype.kind != "f" or not _additive(given):
        raise InputError("reading an additive mask", convention_of(given), _advice(given))
    return np.asarray(given == 0)


def split_additive(mask: object) -> tuple[Visible, AnyFloat]:
    """Read a float that is mask and bias in one: return what it shows, and what it adds there.

    Only -inf and the smallest numbers of float16, bfloat16, float32 and float64 hide.

    Raises:
        InputError: not float.

    >>> shown, bias = split_additive([0.5, -np.inf])
    >>> shown, bias
    (array([ True, False]), array([0.5, 0. ]))
    """
    given = array("reading an additive mask", "the mask", mask)
    if given.dtype.kind != "f":
        raise InputError("reading an additive mask", convention_of(given), _advice(given))
    wide = given.astype(np.float64)
    shown = ~np.isin(wide, tuple(FILLS.values()))
    return shown, np.where(shown, wide, 0.0)


def to_additive(mask: Visible, fill: Fill = "-inf") -> AnyFloat:
    """Write a float mask to be added to the scores: 0 shows, `fill` hides; float64.

    fill: "-inf", or the type whose smallest number is meant.

    Raises:
        InputError: `mask` is not boolean, or there is no such fill.

    >>> to_additive(np.array([True, False]))
    array([  0., -inf])
    >>> to_additive(np.array([True, False]), "float16")
    array([     0., -65504.])
    """
    doing = "writing an additive mask"
    choice(doing, "the fill", fill, FILLS)
    return np.where(from_keep(mask, doing), 0.0, FILLS[fill])


def from_tokenizer(mask: object) -> Visible:
    """Read a tokenizer's mask (batch, keys), 1 = real token, as (batch, 1, 1, keys).

    Whole numbers, floats or booleans; one sample (keys) becomes (1, 1, 1, keys). It hides keys;
    the queries of padded tokens still attend, and their output is to be ignored.

    Elsewhere: ``attention_mask`` of Hugging Face models.

    Raises:
        InputError: other values than 0 and 1, or other axes.

    >>> from_tokenizer([[1, 1, 0]])[0, 0, 0]
    array([ True,  True, False])
    """
    doing = "reading a tokenizer's mask"
    given = array(doing, "the mask", mask)
    if given.dtype.kind not in "biuf" or not bool(np.isin(given, (0, 1)).all()):
        raise InputError(doing, convention_of(given), _advice(given))
    if given.ndim not in {1, 2}:
        raise InputError(doing, f"a mask of shape {given.shape}", "give (batch, keys)")
    return np.atleast_2d(given.astype(bool))[:, None, None, :]


def to_tokenizer(mask: Visible) -> Int[np.ndarray, "batch keys"]:
    """Write a mask as a tokenizer does, 1 = real token: (batch, keys).

    Raises:
        InputError: `mask` is not boolean, has not four axes, or what it shows depends on head or
            query, which this form can't say.

    >>> to_tokenizer(np.array([True, False])[None, None, None])
    array([[1, 0]])
    """
    return key_rows(mask, "writing a tokenizer's mask").astype(np.int64)


def key_rows(mask: Visible, doing: str) -> NDArray[np.bool_]:
    """Return (batch, keys) of a mask whose rows are all the same.

    Raises:
        InputError: not boolean, not four axes, or the rows differ.

    >>> key_rows(np.ones((1, 1, 2, 3), dtype=bool), "reading rows").shape
    (1, 3)
    """
    given = from_keep(mask, doing)
    if given.ndim != 4:
        raise InputError(
            doing, f"a mask of shape {given.shape}", "give (batch, 1 or heads, 1 or queries, keys)"
        )
    first = given[:, :1, :1]
    if not bool((given == first).all()):
        _, head, query, key = np.argwhere(given != first)[0]
        raise InputError(
            doing,
            f"a mask that differs between queries or heads, first at head {head}, query {query}, "
            f"key {key}",
            "keep that part apart: this form says only which keys are padding",
        )
    return np.asarray(first[:, 0, 0])


def _additive(given: NDArray[Any]) -> bool:
    """Return whether every number is 0 or one that hides."""
    return bool(((given == 0) | (given <= HIDING)).all())


def _advice(given: NDArray[Any]) -> str:
    """Return what to do with a mask that was found in another convention than was said."""
    if given.dtype.kind == "b":
        return "read it with from_keep (True = may attend) or from_drop (True = hidden)"
    if given.dtype.kind not in "iuf":
        return "give an array of booleans or numbers"
    if bool(np.isin(given, (0, 1)).all()):
        return "read it with from_tokenizer, or say mask.astype(bool) and from_keep or from_drop"
    if given.dtype.kind == "f" and _additive(given):
        return "read it with from_additive"
    return "give numbers that are added to scores as bias=, or part them with split_additive"
