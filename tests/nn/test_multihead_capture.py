"""Recording a MultiheadAttention changes nothing and reads every part of it, whole."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.calls import Call
from attnscope.calls.call import TensorName
from attnscope.nn import (
    AcrossHeads,
    ALiBi,
    AttentionDropouts,
    Causal,
    Documents,
    Fused,
    HeadwiseOutput,
    MultiheadAttention,
    Prefix,
    Rotary,
    Separate,
    SharedKeyValue,
    SharedQueryKey,
    ShawKeys,
    Sinks,
    Softcap,
    T5Bias,
    Window,
    ZeroSink,
)
from attnscope.nn.parameters import project

B, T, E, H = 2, 7, 32, 4

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "bias kv": ({"add_bias_kv": True}, {"keys": T + 1}),
    "zero attention": ({"add_zero_attn": True}, {"keys": T + 1}),
    "kv heads": ({"kv_heads": 2}, {"kv_heads": 2}),
    "one kv head": ({"kv_heads": 1}, {"kv_heads": 1}),
    "head_dim": ({"head_dim": 6}, {"scale": 6**-0.5}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "separate": ({"projections": Separate()}, {}),
    "fused": ({"projections": Fused(), "kv_heads": 2}, {"kv_heads": 2}),
    "shared k and v": ({"projections": SharedKeyValue()}, {}),
    "shared q and k": ({"projections": SharedQueryKey()}, {}),
    "norm": ({"qk_norm": nn.RMSNorm}, {}),
    "norm across": ({"qk_norm": AcrossHeads(nn.LayerNorm), "kv_heads": 2}, {"kv_heads": 2}),
    "rotary": ({"positions": Rotary()}, {}),
    "rotary interleaved": ({"positions": Rotary(pairing="interleaved", share=0.5)}, {}),
    "alibi": ({"positions": ALiBi()}, {"bias": True}),
    "t5": ({"positions": T5Bias(H)}, {"bias": True}),
    "shaw": ({"positions": ShawKeys(E // H, 3)}, {"bias": True}),
    "soft cap": ({"scores": Softcap(2.0)}, {"softcap": 2.0}),
    "causal": ({"mask": Causal()}, {"mask": "causal"}),
    "window": ({"mask": Causal() & Window(3)}, {"mask": "causal+window"}),
    "prefix": ({"mask": Causal() | Prefix(3)}, {"mask": "prefix"}),
    "sinks": ({"sinks": Sinks(H, count=2, start=0.5)}, {"sinks": 2}),
    "zero sink": ({"sinks": ZeroSink()}, {"sinks": 1}),
    "context norm": ({"context_norm": AcrossHeads(nn.LayerNorm)}, {}),
    "headwise output": ({"output": HeadwiseOutput()}, {}),
    "dropout": ({"dropout": 0.3}, {"dropout": 0.3}),
    "dropout beside": ({"dropouts": AttentionDropouts(context=0.2, output=0.2)}, {}),
    "many": (
        {
            "kv_heads": 2,
            "positions": Rotary(),
            "mask": Causal() & Window(4),
            "qk_norm": nn.RMSNorm,
            "scores": Softcap(5.0),
            "sinks": Sinks(H),
            "dropout": 0.2,
        },
        {"kv_heads": 2, "softcap": 5.0, "mask": "causal+window", "sinks": 1, "dropout": 0.2},
    ),
    "more": (
        {
            "kv_heads": 1,
            "positions": T5Bias(H),
            "mask": Causal(),
            "scores": Softcap(5.0),
            "sinks": ZeroSink(),
            "context_norm": nn.LayerNorm,
            "output": HeadwiseOutput(),
        },
        {"kv_heads": 1, "softcap": 5.0, "mask": "causal", "bias": True, "sinks": 1},
    ),
}


def made(name: str) -> MultiheadAttention:
    module = MultiheadAttention(E, H, batch_first=True, **CASES[name][0])
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) / 8)
    return module


def recorded(module: nn.Module, x: Tensor, **asked: Any) -> tuple[Call, Any]:
    torch.manual_seed(1)
    plain, after = module(x, x, x, **asked), torch.get_rng_state()
    torch.manual_seed(1)
    with attnscope.record(module) as trace:
        output = module(x, x, x, **asked)
    assert torch.equal(torch.get_rng_state(), after)
    assert torch.equal(output[0], plain[0])
    assert not trace.unseen
    assert not trace.others
    (call,) = trace
    return call, output


def check_recipe(call: Call, truth: dict[str, Any]) -> None:
    recipe = call.recipe
    assert recipe.unknown == ()
    assert recipe.normaliser == "softmax"
    assert recipe.scale == pytest.approx(truth.get("scale", (E // H) ** -0.5), rel=1e-6)
    assert recipe.softcap == (pytest.approx(truth["softcap"]) if "softcap" in truth else None)
    assert recipe.mask.kind == truth.get("mask", "none")
    assert (recipe.bias is not None) == truth.get("bias", False)
    assert (0 if recipe.sinks is None else recipe.sinks.shape[-1]) == truth.get("sinks", 0)
    assert recipe.dropout == pytest.approx(truth.get("dropout", 0.0))
    assert (call.kv_heads, call.keys) == (truth.get("kv_heads", H), truth.get("keys", T))


@pytest.mark.parametrize("name", CASES)
def test_every_part_is_read_and_replayed_to_the_bit(name: str) -> None:
    call, (_, weights) = recorded(made(name), torch.randn(B, T, E), average_attn_weights=False)
    assert call.kind == "eager"
    assert call.replay_error == 0.0
    check_recipe(call, CASES[name][1])
    given = call.recipe.weights(call.q, call.k, torch.float64)
    assert torch.allclose(given, call.weights().double(), atol=2e-6)
    if not call.recipe.dropout:
        assert torch.equal(call.weights(), weights)


@pytest.mark.parametrize("name", CASES)
def test_without_weights(name: str) -> None:
    """Where the fused kernel does the work, replay is by formula, and as close as rounding."""
    module = made(name).eval()
    call, _ = recorded(module, torch.randn(B, T, E), need_weights=False)
    truth = {key: value for key, value in CASES[name][1].items() if key != "dropout"}
    by_kernel = not {"softcap", "sinks"} & set(truth)
    assert call.kind == ("sdpa" if by_kernel else "eager")
    check_recipe(call, truth)
    assert call.replay_error is not None
    assert call.replay_error <= (1e-6 if by_kernel else 0.0)


@pytest.mark.parametrize("name", CASES)
def test_the_call_holds_what_entered_attention(name: str) -> None:
    """q, k and v are those of the module's own steps: projected, split, normed and turned."""
    module, x = made(name), torch.randn(B, T, E)
    call, _ = recorded(module, x)
    tokens = x.transpose(0, 1)
    with torch.no_grad():
        q, k, v = project(module, tokens, tokens, tokens)
        q, k, v = (
            part.reshape(T, B, -1, module.head_dim).permute(1, 2, 0, 3) for part in (q, k, v)
        )
        if module.q_norm is not None and module.k_norm is not None:
            q, k = module.q_norm(q), module.k_norm(k)
        if module.positions is not None:
            q, k = module.positions.turn(q, k, torch.arange(T), torch.arange(T))
    for name_, wanted in (("q", q), ("k", k), ("v", v)):
        given = getattr(call, name_)[:, :, :T]
        assert torch.allclose(given, wanted, rtol=1e-5, atol=1e-6), name_


def test_gradients_are_there_after_a_backward() -> None:
    module, x = made("many"), torch.randn(B, T, E)
    with attnscope.record(module) as trace:
        module(x, x, x)[0].square().sum().backward()
    for name in get_args(TensorName):
        assert trace[0].grad(name).abs().sum() > 0


def test_masks_of_all_conventions_are_read_as_one() -> None:
    module, x = made("causal"), torch.randn(B, T, E)
    padding = torch.arange(T) >= torch.tensor([[T], [5]])
    ids = torch.arange(T).div(4, rounding_mode="floor").expand(B, -1)
    call, _ = recorded(module, x, key_padding_mask=padding, mask=Documents(ids))
    places = torch.arange(T)
    wanted = (Causal() & Documents(ids)).visible(places, places) & ~padding[:, None, None]
    given = call.recipe.mask.dense(T, T)
    assert torch.equal(given.expand(B, 1, T, T), wanted.expand(B, 1, T, T))


def test_steps_of_decoding_are_calls() -> None:
    module, x = made("many").eval(), torch.randn(B, T, E)
    cache = module.new_cache()
    with attnscope.record(module) as trace, torch.no_grad():
        for i in range(T):
            new = x[:, i : i + 1]
            module(new, new, new, cache=cache)
    assert [call.keys for call in trace] == [1, 2, 3, 4, 5, 5, 5]
    assert all(call.replay_error == 0.0 for call in trace)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(made("many") for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, x, x)[0]
        return x


def test_a_call_knows_its_module_its_line_and_its_step() -> None:
    model, x = Model(), torch.randn(B, T, E)
    with attnscope.record(model) as trace:
        model(x)
        model(x)
    assert [call.step for call in trace] == [0, 0, 1, 1]
    trace = attnscope.trace(model, x)
    assert [call.module for call in trace] == ["layers.0", "layers.1"]
    assert {call.source.file for call in trace} == {__file__}
    assert {call.source.function for call in trace} == {"Model.forward"}
