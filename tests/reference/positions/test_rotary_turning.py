from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama

from attnscope.errors import InputError
from attnscope.reference import (
    LinearScaling,
    YarnScaling,
    rotary,
    rotary_backward,
    rotary_frequencies,
    rotary_table,
)
from tests.reference.differences import CLOSE, ROUNDING, slopes

PAIRINGS = ("half", "interleaved")
FLOAT32 = 1e-5
"""Angles up to 40 in float32: half a unit in the last place is 2e-6."""


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def test_the_half_pairing_is_llamas() -> None:
    config = LlamaConfig(
        hidden_size=32,
        num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    positions = torch.tensor([[0, 1, 2, 7, 40], [3, 4, 5, 6, 39]])
    q, k = array(2, 2, 5, 16), array(2, 1, 5, 16)
    given_q, given_k = torch.tensor(q), torch.tensor(k)
    cos, sin = llama.LlamaRotaryEmbedding(config)(given_q, positions)
    expected_q, expected_k = llama.apply_rotary_pos_emb(given_q, given_k, cos, sin)
    for x, expected in ((q, expected_q), (k, expected_k)):
        np.testing.assert_allclose(rotary(x, positions.numpy(), base=500.0), expected, atol=FLOAT32)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
def test_the_interleaved_pairing_is_gpt_js(share: float) -> None:
    x, width = array(2, 3, 6, 16), int(16 * share)
    sin, cos = gptj.create_sinusoidal_positions(6, width).split(width // 2, -1)
    given = torch.tensor(x).transpose(1, 2)  # (batch, length, heads, head_dim)
    turned = gptj.apply_rotary_pos_emb(given[..., :width], sin[None], cos[None])
    expected = torch.cat([turned, given[..., width:]], -1).transpose(1, 2)
    found = rotary(x, pairing="interleaved", share=share)
    np.testing.assert_allclose(found, expected, atol=FLOAT32)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
def test_a_share_of_the_features_turns_as_in_neox(share: float) -> None:
    config = GPTNeoXConfig(
        hidden_size=32,
        num_attention_heads=2,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 500.0,
            "partial_rotary_factor": share,
        },
    )
    x = array(2, 2, 6, 16)
    given = torch.tensor(x)
    cos, sin = neox.GPTNeoXRotaryEmbedding(config)(given, torch.arange(6)[None])
    apply: Any = neox.apply_rotary_pos_emb
    expected, _ = apply(given, given, cos, sin)
    np.testing.assert_allclose(rotary(x, base=500.0, share=share), expected, atol=FLOAT32)
    untouched = int(16 * share)
    np.testing.assert_array_equal(
        rotary(x, base=500.0, share=share)[..., untouched:], x[..., untouched:]
    )


def test_the_interleaved_pairing_is_a_product_of_complex_numbers_as_in_metas_llama() -> None:
    x = array(3, 6, 8)
    angles = torch.arange(6, dtype=torch.float64)[:, None] * torch.tensor(rotary_frequencies(8))
    pairs = torch.view_as_complex(torch.tensor(x).reshape(3, 6, 4, 2))
    expected = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
    np.testing.assert_allclose(rotary(x, pairing="interleaved"), expected, atol=ROUNDING)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(PAIRINGS),
    st.sampled_from([100.0, 10000.0, 500000.0]),
    st.sampled_from([1.0, 0.5]),
    st.integers(-1000, 1000),
    st.integers(0, 99),
)
def test_scores_depend_on_the_distance_alone(
    pairing: Any, base: float, share: float, shift: int, seed: int
) -> None:
    options: Any = {"pairing": pairing, "base": base, "share": share}
    q, k = array(4, 8, seed=seed), array(5, 8, seed=seed + 1)
    queries, keys = np.array([0, 1, 5, 30]), np.array([0, 2, 3, 4, 29])
    plain = rotary(q, queries, **options) @ rotary(k, keys, **options).T
    moved = rotary(q, queries + shift, **options) @ rotary(k, keys + shift, **options).T
    np.testing.assert_allclose(moved, plain, atol=1000 * ROUNDING)
    assert not np.allclose(plain, q @ k.T, atol=1e-3)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(PAIRINGS), st.integers(-99, 99), st.integers(-99, 99))
def test_turns_add_up_and_keep_lengths(pairing: Any, first: int, second: int) -> None:
    x = array(1, 8)
    twice = rotary(rotary(x, [first], pairing=pairing), [second], pairing=pairing)
    once = rotary(x, [first + second], pairing=pairing)
    np.testing.assert_allclose(twice, once, atol=100 * ROUNDING)
    np.testing.assert_allclose(np.linalg.norm(once), np.linalg.norm(x))


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("scaling", [None, LinearScaling(3.0), YarnScaling(4.0, 16)])
def test_the_gradient_is_the_slope_and_the_turn_back(
    pairing: Any, share: float, scaling: Any
) -> None:
    options: Any = {"pairing": pairing, "share": share, "scaling": scaling}
    x, along, positions = array(2, 3, 8), array(2, 3, 8, seed=1), np.array([0, 4, 11])
    (expected,) = slopes(lambda given: rotary(given, positions, **options), x, along=along)
    found = rotary_backward(along, positions, **options)
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    if scaling is None or scaling.amplitude == 1:
        back = rotary_backward(rotary(x, positions, **options), positions, **options)
        np.testing.assert_allclose(back, x, atol=ROUNDING)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_gradient_is_torchs(pairing: Any) -> None:
    x, along = array(2, 5, 6), array(2, 5, 6, seed=1)
    leaf = torch.tensor(x, requires_grad=True)
    cos, sin = (torch.tensor(one) for one in rotary_table(np.arange(5), 6))
    if pairing == "half":
        a, b = leaf.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    else:
        a, b = leaf[..., ::2], leaf[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    turned.backward(torch.tensor(along))
    np.testing.assert_allclose(rotary(x, pairing=pairing), turned.detach(), atol=ROUNDING)
    assert leaf.grad is not None
    np.testing.assert_allclose(rotary_backward(along, pairing=pairing), leaf.grad, atol=ROUNDING)


def test_positions_are_for_all_for_each_sample_or_for_each_row() -> None:
    x, places = array(2, 3, 4, 6), np.array([[0, 1, 2, 3], [5, 6, 7, 9]])
    each = np.stack([rotary(x[sample], places[sample]) for sample in range(2)])
    np.testing.assert_array_equal(rotary(x, places), each)
    np.testing.assert_array_equal(rotary(x, places[:, None, :]), each)
    np.testing.assert_array_equal(rotary(x[:, 0], places), each[:, 0])
    np.testing.assert_array_equal(rotary(x), rotary(x, np.arange(4)))
    np.testing.assert_array_equal(
        rotary(x, np.tile(places[:1], (3, 1))[None]), rotary(x, places[0])
    )


def test_positions_may_lie_between_tokens() -> None:
    x = array(2, 6)
    np.testing.assert_allclose(
        rotary(x, [0.5, 1.5]), rotary(x, [1, 3], scaling=LinearScaling(2.0)), atol=ROUNDING
    )


def test_the_argument_is_left_as_it_was() -> None:
    x = array(3, 4)
    before = x.copy()
    rotary(x)
    rotary_backward(x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    "change",
    [
        {"pairing": "interleaved"},
        {"base": 100.0},
        {"share": 0.5},
        {"scaling": LinearScaling(2.0)},
        {"positions": [1, 2, 3]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_argument_matters(change: dict[str, Any]) -> None:
    x = array(3, 8)
    for function in (rotary, rotary_backward):
        assert not np.allclose(function(x, **change), function(x), atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "positions", "options", "message"),
    [
        ((3, 7), None, {}, "of head_dim 7 the share 1.0 turns 7 features, an odd number"),
        ((3, 8), None, {"share": 0.4}, "of head_dim 8 the share 0.4 turns 3 features"),
        ((3, 8), None, {"share": 0.1}, "the share 0.1 turns 0 features, none"),
        ((3, 8), None, {"share": 0.0}, "the share is 0.0; give a number above 0 and at most 1"),
        ((3, 8), None, {"share": 1.5}, "the share is 1.5"),
        ((3, 8), None, {"base": 1.0}, "the base is 1.0; give a number above 1"),
        ((3, 8), None, {"pairing": "llama"}, "pairing is 'llama'; give 'half' or 'interleaved'"),
        ((3, 8), None, {"scaling": 4.0}, "the scaling is 4.0; give one of the scalings"),
        ((3, 8), [0, 1], {}, "x (3, 8), positions (2,); give positions (length 3,)"),
        ((2, 4, 3, 8), [[0, 1, 2]] * 4, {}, "x (2, 4, 3, 8), positions (4, 3)"),
        ((3, 8), [[0, 1, 2]] * 2, {}, "x (3, 8), positions (2, 3)"),
        ((3, 8), [0, 1, float("nan")], {}, "positions hold nan"),
        ((3, 8), [True, False, True], {}, "positions is of type bool"),
        ((8,), None, {}, "has the shape (8,); give it at least 2 axes"),
    ],
)
def test_what_cannot_be_used_is_named(
    shape: tuple[int, ...], positions: Any, options: Any, message: str
) -> None:
    for function in (rotary, rotary_backward):
        with pytest.raises(InputError) as caught:
            function(np.ones(shape), positions, **options)
        assert message in str(caught.value)
