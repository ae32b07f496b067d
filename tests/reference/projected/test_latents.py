"""Latent attention: DeepSeek-V2's own module, both forms, and the gradients of both."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DeepseekV2Config
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as deepseek

from attnscope import reference
from attnscope.errors import InputError
from attnscope.reference import LatentForm, LatentWeights
from attnscope.reference.axes import Tokens

WIDTH, HEADS, NOPE, ROPE, VALUE, RANK, Q_RANK = 12, 3, 5, 4, 3, 6, 7
FORM = LatentForm(HEADS)
HALVES = 1e-5
"""The module of Hugging Face turns q and k in float32."""


def drawn(*, compressed: bool, biases: bool = False, seed: int = 0) -> tuple[Tokens, LatentWeights]:
    rng = np.random.default_rng(seed)

    def matrix(*shape: int) -> np.ndarray:
        return np.asarray(rng.normal(size=shape) / np.sqrt(shape[-1]))

    weights = LatentWeights(
        q=matrix(HEADS * (NOPE + ROPE), Q_RANK if compressed else WIDTH),
        kv_down=matrix(RANK + ROPE, WIDTH),
        kv_norm=rng.uniform(0.5, 2, size=RANK),
        kv_up=matrix(HEADS * (NOPE + VALUE), RANK),
        output=matrix(WIDTH, HEADS * VALUE),
        q_down=matrix(Q_RANK, WIDTH) if compressed else None,
        q_norm=rng.uniform(0.5, 2, size=Q_RANK) if compressed else None,
        q_down_bias=rng.normal(size=Q_RANK) if compressed and biases else None,
        kv_down_bias=rng.normal(size=RANK + ROPE) if biases else None,
        output_bias=rng.normal(size=WIDTH) if biases else None,
    )
    return rng.normal(size=(2, 5, WIDTH)), weights


@pytest.mark.parametrize("compressed", [False, True])
def test_the_module_of_deepseek_gives_the_same(*, compressed: bool) -> None:
    x, weights = drawn(compressed=compressed, biases=True)
    make_config: Any = DeepseekV2Config
    config = make_config(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        qk_nope_head_dim=NOPE,
        qk_rope_head_dim=ROPE,
        v_head_dim=VALUE,
        kv_lora_rank=RANK,
        q_lora_rank=Q_RANK if compressed else None,
        attention_bias=True,
        attn_implementation="eager",
    )
    module = deepseek.DeepseekV2Attention(config, layer_idx=0).double().eval()
    names = {
        "kv_a_proj_with_mqa.weight": weights.kv_down,
        "kv_a_proj_with_mqa.bias": weights.kv_down_bias,
        "kv_a_layernorm.weight": weights.kv_norm,
        "kv_b_proj.weight": weights.kv_up,
        "o_proj.weight": weights.output,
        "o_proj.bias": weights.output_bias,
        "q_b_proj.weight" if compressed else "q_proj.weight": weights.q,
    }
    if compressed:
        names["q_a_proj.weight"] = weights.q_down
        names["q_a_proj.bias"] = weights.q_down_bias
        names["q_a_layernorm.weight"] = weights.q_norm
    module.load_state_dict({name: torch.tensor(value) for name, value in names.items()})
    rotary = deepseek.DeepseekV2RotaryEmbedding(config)
    hidden = torch.from_numpy(x)
    positions = torch.arange(3, 8)[None]
    mask = torch.full((5, 5), float("-inf")).triu(1).double()[None, None]
    with torch.no_grad():
        expected = module(hidden, mask, None, rotary(hidden, positions))[0]
    found = reference.latent(
        x,
        weights,
        replace(FORM, base=config.rope_parameters["rope_theta"]),
        positions=np.arange(3, 8),
        causal=True,
    )
    np.testing.assert_allclose(found, expected, atol=HALVES)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"scale": None, "normaliser": "sigmoid"},
    {"scale": 0.3, "softcap": 2.0},
    {"bias": np.linspace(-1, 1, 25).reshape(5, 5), "sinks": 0.5},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("compressed", [False, True])
def test_the_absorbed_form_gives_the_same(*, compressed: bool, options: dict[str, Any]) -> None:
    x, weights = drawn(compressed=compressed)
    plain = reference.latent(x, weights, FORM, **options)
    absorbed = reference.latent_absorbed(x, weights, FORM, **options)
    np.testing.assert_allclose(absorbed, plain, rtol=1e-10, atol=1e-12)
    for step in ("raw_scores", "scores", "weights", "logsumexp"):
        mine, theirs = (getattr(form.attention, step) for form in (absorbed, plain))
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
    assert absorbed.attention.context.shape == (2, HEADS, 5, RANK)
    assert plain.attention.context.shape == (2, HEADS, 5, VALUE)
    np.testing.assert_array_equal(absorbed.latent, plain.latent)


def test_one_sample_alone_gives_its_rows() -> None:
    x, weights = drawn(compressed=True)
    for function in (reference.latent, reference.latent_absorbed):
        whole = function(x, weights, FORM)
        np.testing.assert_allclose(function(x[1], weights, FORM), whole.output[1], rtol=1e-12)


def test_scores_depend_on_the_distance_of_tokens_alone() -> None:
    x, weights = drawn(compressed=False)
    here = reference.latent(x, weights, FORM)
    there = reference.latent(x, weights, FORM, positions=np.arange(100, 105))
    np.testing.assert_allclose(there.attention.raw_scores, here.attention.raw_scores, rtol=1e-9)
    apart = reference.latent(x, weights, FORM, positions=np.arange(5) * 2)
    assert not np.allclose(apart, here)


@pytest.mark.parametrize(
    "form",
    [
        replace(FORM, pairing="half"),
        replace(FORM, base=100.0),
        replace(FORM, eps=1.0),
        replace(FORM, scaling=reference.positions.LinearScaling(4.0)),
    ],
    ids=["pairing", "base", "eps", "scaling"],
)
def test_every_part_of_the_form_matters(form: LatentForm) -> None:
    x, weights = drawn(compressed=False)
    before = reference.latent(x, weights, FORM)
    assert not np.allclose(reference.latent(x, weights, form), before, rtol=1e-3)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_gradients_are_the_slopes_of_both_forms(
    *, compressed: bool, biases: bool, options: dict[str, Any]
) -> None:
    x, weights = drawn(compressed=compressed, biases=biases)
    rng = np.random.default_rng(9)
    gradient = rng.normal(size=x.shape)
    back = reference.latent_backward(gradient, x, weights, FORM, **options)
    found = {"x": back.x, **{f.name: getattr(back.weights, f.name) for f in fields(weights)}}
    step = 1e-5
    for name, mine in found.items():
        value = x if name == "x" else getattr(weights, name)
        assert (mine is None) == (value is None), name
        if value is None:
            continue
        assert mine.shape == value.shape
        along = rng.normal(size=value.shape)
        for function in (reference.latent, reference.latent_absorbed):
            ends = []
            for sign in (1, -1):
                moved = value + sign * step * along
                tokens = moved if name == "x" else x
                changed = weights if name == "x" else replace(weights, **{name: moved})
                output = function(tokens, changed, FORM, **options).output
                ends.append(float((output * gradient).sum()))
            expected = (ends[0] - ends[1]) / (2 * step)
            level = max(abs(expected), float(np.abs(mine).sum()))
            assert float((mine * along).sum()) == pytest.approx(expected, abs=1e-7 * level), name


def test_sizes_that_do_not_fit_are_errors() -> None:
    x, weights = drawn(compressed=True)
    with pytest.raises(InputError, match="27 rows of q, 10 of kv_down, kv_up of shape"):
        reference.latent(x, weights, LatentForm(heads=4))
    with pytest.raises(InputError, match="heads is 0"):
        reference.latent(x, weights, LatentForm(heads=0))
    with pytest.raises(InputError, match="one of q_down and q_norm alone"):
        reference.latent(x, replace(weights, q_norm=None), FORM)
    with pytest.raises(InputError, match="projecting q"):
        reference.latent(x[..., :5], weights, FORM)
    with pytest.raises(InputError, match=r"a gradient of shape \(2, 5\)"):
        reference.latent_backward(np.ones((2, 5)), x, weights, FORM)


def test_the_rms_norm_is_that_of_torch() -> None:
    rng = np.random.default_rng(0)
    x, gain, gradient = rng.normal(size=(2, 3, 4)), rng.normal(size=4), rng.normal(size=(2, 3, 4))
    module = torch.nn.RMSNorm(4, eps=1e-3, dtype=torch.float64)
    module.load_state_dict({"weight": torch.from_numpy(gain)})
    leaf = torch.tensor(x, requires_grad=True)
    expected = module(leaf)
    np.testing.assert_allclose(reference.rms_norm(x, gain, 1e-3), expected.detach(), rtol=1e-12)
    expected.backward(torch.from_numpy(gradient))
    of_x, of_gain = reference.rms_norm_backward(gradient, x, gain, 1e-3)
    assert leaf.grad is not None
    assert module.weight.grad is not None
    np.testing.assert_allclose(of_x, leaf.grad, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(of_gain, module.weight.grad, rtol=1e-10, atol=1e-13)


def test_options_that_have_no_gradient_are_refused() -> None:
    x, weights = drawn(compressed=True)
    options: Any = {"causl": True}
    with pytest.raises(TypeError, match="unexpected keyword argument 'causl'"):
        reference.latent_backward(x, x, weights, FORM, **options)
    options = {"edit_scores": np.zeros_like}
    with pytest.raises(InputError, match="edit_scores, an edit whose derivative is not known"):
        reference.latent_backward(x, x, weights, FORM, **options)
