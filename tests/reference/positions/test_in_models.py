"""Positions of real architectures: what their attention received is what the reference makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import attnscope
from attnscope import reference
from attnscope.targets.architectures import build

FLOAT32 = 1e-5
"""Relative to numbers of the order of 1: a model in float32, at positions below 20."""

ROTARY: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "cohere": {"pairing": "interleaved", "base": 500000.0},
    "phi": {"share": 0.5},
    "glm": {"share": 0.5, "pairing": "interleaved"},
    "gptj": {"share": "rotary_dim", "pairing": "interleaved"},
}


def traced(name: str) -> tuple[Any, attnscope.Trace]:
    built = build(name)
    return built.model, attnscope.trace(built.model, **built.inputs)


@pytest.mark.parametrize("name", ROTARY)
def test_q_and_k_are_turned_as_the_model_turns_them(name: str) -> None:
    built = build(name)
    seen: dict[str, Any] = {}
    for path, module in built.model.named_modules():
        part = path.rpartition(".")[2]
        if part in {"q_proj", "k_proj"}:
            module.register_forward_hook(
                lambda _module, _given, out, part=part: seen.setdefault(part[0], out.detach())
            )
    call = attnscope.trace(built.model, **built.inputs)[0]
    options = dict(ROTARY[name])
    if options.get("share") == "rotary_dim":
        config: Any = built.model.config
        options["share"] = config.rotary_dim / call.q.shape[-1]
    for part, received in (("q", call.q), ("k", call.k)):
        heads = seen[part].unflatten(-1, (-1, received.shape[-1])).transpose(1, 2)
        turned = reference.rotary(heads.numpy(), **options)
        np.testing.assert_allclose(turned, received.detach(), atol=FLOAT32)
        assert not np.allclose(heads, received.detach(), atol=1e-2)
        other = "half" if options.get("pairing") == "interleaved" else "interleaved"
        wrong = reference.rotary(heads.numpy(), **{**options, "pairing": other})
        assert not np.allclose(wrong, received.detach(), atol=1e-2)


def context(call: Any, bias: Any) -> Any:
    """Return the context of the reference from the call's q, k, v, scale and mask, and a bias."""
    visible = call.recipe.mask.dense(call.q.shape[-2], call.k.shape[-2]).numpy()
    q, k, v = (one.detach().numpy() for one in (call.q, call.k, call.v))
    return reference.attention(q, k, v, scale=call.recipe.scale, mask=visible, bias=bias).context


@pytest.mark.parametrize("name", ["bloom", "mpt"])
@pytest.mark.parametrize("form", ["causal", "symmetric"])
def test_alibi_gives_the_models_context(name: str, form: Any) -> None:
    _, trace = traced(name)
    for call in trace:
        heads, length = call.q.shape[1], call.q.shape[2]
        places = np.arange(length)
        slopes = reference.alibi_slopes(heads)
        bias = reference.alibi_bias(slopes, places, places, form=form)
        expected = call.context().detach()
        np.testing.assert_allclose(context(call, bias), expected, atol=FLOAT32)
        assert not np.allclose(context(call, None), expected, atol=1e-3)


def test_buckets_give_the_context_of_t5_in_encoder_and_decoder() -> None:
    model, trace = traced("t5")
    told = 0
    for call in trace:
        if "SelfAttention" not in call.module:
            continue
        stack = "encoder" if call.module.startswith("encoder") else "decoder"
        first = getattr(model, stack).block[0].layer[0].SelfAttention
        places = np.arange(call.q.shape[-2])
        bias = reference.t5_bias(
            first.relative_attention_bias.weight.detach().numpy(),
            places,
            places,
            bidirectional=stack == "encoder",
            max_distance=model.config.relative_attention_max_distance,
        )
        expected = call.context().detach()
        np.testing.assert_allclose(context(call, bias), expected, atol=10 * FLOAT32)
        told += not np.allclose(context(call, None), expected, atol=1e-3)
    assert told


def test_learned_positions_are_gpt_2s() -> None:
    built = build("gpt2")
    model = built.model
    seen: list[torch.Tensor] = []
    embedding = next(module for path, module in model.named_modules() if path.endswith("wpe"))
    embedding.register_forward_hook(lambda _module, _given, out: seen.append(out.detach()))
    model(**built.inputs)
    places = np.arange(seen[0].shape[-2])[None]
    found = reference.learned_positions(embedding.weight.detach().numpy(), places)
    np.testing.assert_array_equal(found, seen[0])
