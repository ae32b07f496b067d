from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import convert_pairing, pairing_order, rotary
from tests.reference.differences import ROUNDING

OTHER: dict[str, Any] = {"half": "interleaved", "interleaved": "half"}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from(["half", "interleaved"]),
    st.sampled_from([(8, 1.0), (8, 0.5), (6, 1.0), (20, 0.3)]),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_converted_weights_give_the_same_scores_under_the_other_pairing(
    to: Any, sizes: tuple[int, float], heads: int, seed: int
) -> None:
    head_dim, share = sizes
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(5, 7))
    weights, biases = (
        rng.normal(size=(2, heads * head_dim, 7)),
        rng.normal(size=(2, heads * head_dim)),
    )

    def scores(pairing: Any, weights: Any, biases: Any) -> Any:
        q, k = (
            (x @ weight.T + bias).reshape(5, heads, head_dim).swapaxes(0, 1)
            for weight, bias in zip(weights, biases, strict=True)
        )
        turned = (rotary(one, pairing=pairing, share=share) for one in (q, k))
        return np.einsum("hid,hjd->hij", *turned)

    converted = [
        [convert_pairing(one, head_dim, to=to, share=share) for one in many]
        for many in (weights, biases)
    ]
    plain = scores(OTHER[to], weights, biases)
    np.testing.assert_allclose(scores(to, *converted), plain, atol=1000 * ROUNDING)
    assert not np.allclose(scores(to, weights, biases), plain, atol=1e-3)


def test_the_order_turns_one_pairing_into_the_other() -> None:
    x = np.random.default_rng(0).normal(size=(4, 8))
    order = pairing_order(8, to="half")
    found = rotary(x[:, order], pairing="half")
    np.testing.assert_array_equal(found, rotary(x, pairing="interleaved")[:, order])


@pytest.mark.parametrize(("head_dim", "share"), [(8, 1.0), (10, 0.4), (2, 1.0)])
def test_there_and_back_is_where_it_was(head_dim: int, share: float) -> None:
    there, back = (pairing_order(head_dim, to=to, share=share) for to in ("half", "interleaved"))
    np.testing.assert_array_equal(there[back], np.arange(head_dim))
    assert sorted(there) == list(range(head_dim))


def test_to_half_is_what_converts_metas_llama_for_transformers() -> None:
    heads, head_dim, width = 3, 8, 5
    weight = torch.randn(heads * head_dim, width, dtype=torch.float64)
    expected = weight.view(heads, head_dim // 2, 2, width).transpose(1, 2).reshape_as(weight)
    np.testing.assert_array_equal(convert_pairing(weight.numpy(), head_dim, to="half"), expected)


def test_the_axis_matters() -> None:
    weight = np.random.default_rng(0).normal(size=(8, 8))
    found = convert_pairing(weight, 4, to="half", axis=1)
    np.testing.assert_array_equal(found, convert_pairing(weight.T, 4, to="half").T)
    assert not np.allclose(found, convert_pairing(weight, 4, to="half"))


@pytest.mark.parametrize(
    ("shape", "head_dim", "options", "message"),
    [
        ((6, 3), 4, {"to": "half"}, "axis 0 of a weight of shape (6, 3) holds no whole heads of 4"),
        ((8,), 4, {"to": "half", "axis": 1}, "axis 1 of a weight of shape (8,)"),
        ((8, 3), 4, {"to": "neox"}, "to change to is 'neox'; give 'half' or 'interleaved'"),
        ((9, 3), 3, {"to": "half"}, "of head_dim 3 the share 1.0 turns 3 features, an odd number"),
        ((8, 3), 0, {"to": "half"}, "head_dim is 0; give at least 1"),
    ],
)
def test_what_cannot_be_used_is_named(
    shape: tuple[int, ...], head_dim: int, options: Any, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        convert_pairing(np.ones(shape), head_dim, **options)
    assert message in str(caught.value)
