"""Masks to and from other libraries: what they show, and that the other library agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attnscope import reference
from attnscope.errors import InputError
from attnscope.reference.masks import conventions
from attnscope.reference.masks import multihead as multihead_masks

MASKS = arrays.arrays(bool, arrays.array_shapes(min_dims=4, max_dims=4, max_side=4))
ROWS = arrays.arrays(bool, st.tuples(st.integers(1, 3), st.just(1), st.just(1), st.integers(1, 5)))
FILLS: list[Any] = ["-inf", "float16", "bfloat16", "float32", "float64"]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(MASKS)
def test_each_convention_is_undone_by_its_opposite(mask: np.ndarray) -> None:
    there_and_back = {
        "keep": conventions.from_keep(conventions.to_keep(mask)),
        "drop": conventions.from_drop(conventions.to_drop(mask)),
        **{fill: conventions.from_additive(conventions.to_additive(mask, fill)) for fill in FILLS},
    }
    for name, found in there_and_back.items():
        np.testing.assert_array_equal(found, mask, err_msg=name)
    np.testing.assert_array_equal(conventions.to_drop(mask), ~mask)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(ROWS)
def test_rows_are_undone_by_their_opposite(mask: np.ndarray) -> None:
    tokens = conventions.to_tokenizer(mask)
    np.testing.assert_array_equal(conventions.from_tokenizer(tokens), mask)
    np.testing.assert_array_equal(conventions.from_tokenizer(tokens.astype(float)), mask)
    np.testing.assert_array_equal(conventions.from_tokenizer(tokens.astype(bool)), mask)
    drop = multihead_masks.to_key_padding_mask(mask)
    shown, bias = multihead_masks.from_multihead(key_padding_mask=drop, heads=2)
    assert bias is None
    assert shown is None if mask.all() else np.array_equal(np.asarray(shown), mask)


@pytest.mark.parametrize("fill", FILLS)
def test_the_fill_is_the_smallest_number_of_its_type(fill: str) -> None:
    expected = -np.inf if fill == "-inf" else torch.finfo(getattr(torch, fill)).min
    written = conventions.to_additive(np.array([True, False]), fill)  # type: ignore[arg-type]
    assert written.tolist() == [0.0, expected]
    in_its_type = torch.tensor(written, dtype=getattr(torch, fill, torch.float32))
    np.testing.assert_array_equal(conventions.from_additive(in_its_type.double()), [True, False])


def test_one_that_is_mask_and_bias_is_parted() -> None:
    both = np.array([0.5, -20000.0, -np.inf, torch.finfo(torch.bfloat16).min])
    shown, bias = conventions.split_additive(both)
    assert shown.tolist() == [True, True, False, False]
    assert bias.tolist() == [0.5, -20000.0, 0.0, 0.0]


BOOLEAN, BINARY = np.array([True, False]), np.array([1, 0])
ADDITIVE, BIAS = np.array([0.0, -np.inf]), np.array([0.5, -1.0])
BAD: list[tuple[Any, Any, str]] = [
    (conventions.from_keep, BINARY, "whole numbers 0 and 1 .* read it with from_tokenizer"),
    (conventions.from_keep, BINARY * 1.0, "float mask of 0 and 1 .* from_tokenizer"),
    (conventions.from_keep, ADDITIVE, "float mask of 0 and -inf .* read it with from_additive"),
    (conventions.from_keep, BIAS, "as in a bias; give numbers that are added to scores as bias="),
    (conventions.from_keep, np.array(["a"]), "an array of type <U1"),
    (conventions.to_keep, BINARY, "writing a mask"),
    (conventions.from_drop, ADDITIVE, "True = hidden: a float mask of 0 and -inf"),
    (conventions.to_drop, BINARY, "writing a mask, True = hidden"),
    (conventions.from_additive, BOOLEAN, "boolean; read it with from_keep .* or from_drop"),
    (conventions.from_additive, BINARY, "whole numbers 0 and 1"),
    (conventions.from_additive, BINARY * 1.0, "float mask of 0 and 1"),
    (conventions.from_additive, BIAS, "part them with split_additive"),
    (conventions.split_additive, BOOLEAN, "boolean; read it with from_keep"),
    (conventions.to_additive, ADDITIVE, "writing an additive mask: a float mask of 0 and -inf"),
    (
        conventions.from_tokenizer,
        ADDITIVE,
        "reading a tokenizer's mask: a float mask of 0 and -inf",
    ),
    (conventions.from_tokenizer, np.array([2, 0]), "numbers other than 0 and 1"),
    (conventions.from_tokenizer, np.ones((1, 1, 1, 2)), r"shape \(1, 1, 1, 2\)"),
    (conventions.to_tokenizer, BOOLEAN, r"shape \(2,\)"),
    (
        conventions.to_tokenizer,
        np.tri(3, dtype=bool)[None, None],
        "first at head 0, query 1, key 1",
    ),
    (
        multihead_masks.to_key_padding_mask,
        np.eye(2, dtype=bool)[None, :, None],
        "at head 1, query 0",
    ),
]


@pytest.mark.parametrize(("call", "mask", "text"), BAD)
def test_another_convention_is_an_error_that_names_it(call: Any, mask: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call(mask)


def test_a_fill_of_another_name_is_an_error() -> None:
    with pytest.raises(InputError, match="the fill is 'int8'"):
        conventions.to_additive(BOOLEAN, "int8")  # type: ignore[arg-type]


BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 4, 5, 6


def module_and_weights() -> tuple[torch.nn.MultiheadAttention, reference.AttentionWeights]:
    module = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    arrays_of = {name: value.detach().numpy() for name, value in module.named_parameters()}
    weights = reference.AttentionWeights.from_packed(
        arrays_of["in_proj_weight"],
        arrays_of["in_proj_bias"],
        arrays_of["out_proj.weight"],
        arrays_of["out_proj.bias"],
    )
    return module, weights


def attn_masks() -> dict[str, np.ndarray | None]:
    rng = np.random.default_rng(0)
    pairs, each = (
        rng.random((QUERIES, KEYS)) < 0.3,
        rng.random((BATCH * HEADS, QUERIES, KEYS)) < 0.3,
    )
    pairs[:, 0] = each[..., 0] = False
    return {
        "none": None,
        "boolean": pairs,
        "boolean each": each,
        "additive": np.where(pairs, -np.inf, 0.0),
        "bias": rng.normal(size=(QUERIES, KEYS)),
        "mask and bias each": np.where(each, -np.inf, rng.normal(size=each.shape)),
    }


def padding_masks() -> dict[str, np.ndarray | None]:
    drop = np.array([[False, False, False, True, True], [False, False, True, False, False]])
    return {"none": None, "boolean": drop, "additive": np.where(drop, -np.inf, 0.0)}


@pytest.mark.parametrize("padding", padding_masks())
@pytest.mark.parametrize("pairs", attn_masks())
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
def test_both_masks_of_multihead_attention_mean_the_same_here(pairs: str, padding: str) -> None:
    module, weights = module_and_weights()
    x, source = (
        torch.randn(BATCH, QUERIES, WIDTH).double(),
        torch.randn(BATCH, KEYS, WIDTH).double(),
    )
    attn_mask, key_padding_mask = attn_masks()[pairs], padding_masks()[padding]
    in_torch = [
        None if mask is None else torch.from_numpy(mask) for mask in (key_padding_mask, attn_mask)
    ]
    expected, _ = module(x, source, source, in_torch[0], attn_mask=in_torch[1])
    mask, bias = multihead_masks.from_multihead(attn_mask, key_padding_mask, heads=HEADS)
    found = reference.cross_attention(
        x.numpy(), source.numpy(), weights, HEADS, mask=mask, bias=bias
    )
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-12, atol=1e-14)
    assert (mask is None and bias is None) == (pairs == padding == "none")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(mask=MASKS, flat=st.booleans())
def test_attn_mask_is_read_as_it_was_written(mask: np.ndarray, *, flat: bool) -> None:
    given_mask = mask[0, 0] if flat else mask
    batch, heads = mask.shape[:2]
    written = multihead_masks.to_attn_mask(given_mask, batch, heads)
    shown, _ = multihead_masks.from_multihead(written, heads=heads)
    wide = np.broadcast_to(given_mask, mask.shape)
    np.testing.assert_array_equal(
        np.broadcast_to(np.True_ if shown is None else shown, mask.shape), wide
    )


def test_masks_that_the_module_does_not_take_are_errors() -> None:
    with pytest.raises(InputError, match=r"attn_mask of shape \(5, 4, 4\)"):
        multihead_masks.from_multihead(np.ones((5, 4, 4), dtype=bool), heads=3)
    with pytest.raises(InputError, match=r"key_padding_mask of shape \(1, 1, 4\)"):
        multihead_masks.from_multihead(key_padding_mask=np.ones((1, 1, 4), dtype=bool), heads=3)
    with pytest.raises(InputError, match="same keys"):
        multihead_masks.from_multihead(
            np.ones((4, 4), dtype=bool), np.ones((2, 5), dtype=bool), heads=3
        )
    with pytest.raises(InputError, match="for a batch of 3 and 2 heads"):
        multihead_masks.to_attn_mask(np.ones((2, 2, 4, 4), dtype=bool), batch=3, heads=2)
    with pytest.raises(InputError, match=r"shape \(4,\)"):
        multihead_masks.to_attn_mask(np.ones(4, dtype=bool), batch=3, heads=2)
