"""`verify` as it is called: what it compares, what it says, and that it leaves no trace."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.errors import InputError
from attnscope.targets.architectures import build


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, function: Any = by_hand, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.function, self.heads = function, heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        context = self.function(*split)
        out: Tensor = self.out(context.transpose(1, 2).reshape(batch, length, width))
        return out


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(3))


def test_equal_modules_are_equal_and_every_stage_is_listed() -> None:
    result = attnscope.verify(Attention(), Attention(), inputs=X)
    assert result.equal
    assert result.first_difference is None
    names = [stage.stage for stage in result.stages]
    assert names[:10] == [
        *("input", "q", "k", "v", "raw_scores", "scores", "weights", "context", "output", "model")
    ]
    assert {"grad.context", "grad.q", "grad.input", "grad.parameter"} <= set(names)
    assert result.compared == len(names)


@pytest.mark.parametrize("layer", [0, 2, 5])
def test_the_layer_at_fault_is_told_from_those_that_inherit(layer: int) -> None:
    functions = [not_scaled if at == layer else by_hand for at in range(6)]
    candidate = Stack(*(Attention(function) for function in functions))
    result = attnscope.verify(candidate, Stack(*(Attention() for _ in range(6))), inputs=X)
    first = result.first_difference
    assert first is not None
    assert (first.stage, first.call, first.module) == ("scores", layer, f"layers.{layer}")
    assert first.explanation is not None
    assert first.explanation.key == "scale"
    assert first.explanation.remains < 1e-9
    assert first.inherited_error == 0.0
    later = [s for s in result.stages if s.call is not None and s.call > layer]
    assert all(s.own is None or s.own.equal for s in later if s.stage != "scores")
    assert sum(s.at_fault for s in result.stages if s.stage == "scores") == 1


def test_the_numbers_are_those_of_the_place() -> None:
    result = attnscope.verify(Attention(not_scaled), Attention(), inputs=X, gradients=False)
    first = result.first_difference
    assert first is not None
    assert len(first.index) == 4
    assert first.values is not None
    assert first.values[0] == pytest.approx(2 * first.values[1])  # √4: head_dim is 4
    assert first.source is not None
    assert first.source.file == __file__
    assert first.source.code.startswith("return (q @ k.mT).softmax(-1)")


def test_nothing_is_left_changed() -> None:
    candidate, reference = Attention(not_scaled), Attention()
    before = [copy.deepcopy(module.state_dict()) for module in (candidate, reference)]
    state = torch.get_rng_state()
    fast = torch.backends.mha.get_fastpath_enabled()
    attnscope.verify(candidate.train(), reference.eval(), inputs=X)
    for module, kept in zip((candidate, reference), before, strict=True):
        assert all(torch.equal(value, kept[name]) for name, value in module.state_dict().items())
        assert all(parameter.grad is None for parameter in module.parameters())
        assert not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
    assert candidate.training
    assert not reference.training
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.backends.mha.get_fastpath_enabled() == fast


class Counting(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        runs = self.get_buffer("runs")
        runs += 1
        return super().forward(x) + 0 * runs


def test_buffers_that_a_run_writes_to_are_put_back() -> None:
    candidate = Counting()
    attnscope.verify(candidate, Counting(), inputs=X)
    assert float(candidate.get_buffer("runs")) == 0.0


class Raising(Attention):
    def forward(self, x: Tensor) -> Tensor:
        super().forward(x)
        message = "no such thing"
        raise ValueError(message)


def test_a_side_that_raises_is_told_and_the_world_put_back() -> None:
    candidate = Raising()
    before = copy.deepcopy(candidate.state_dict())
    with pytest.raises(InputError, match="it raised ValueError: no such thing"):
        attnscope.verify(candidate, Attention(), inputs=X)
    assert all(torch.equal(v, before[name]) for name, v in candidate.state_dict().items())
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    assert len(attnscope.trace(module, x, x, x)) == 1


@pytest.mark.parametrize(
    ("candidate", "inputs", "text"),
    [
        (Attention, X, "an instance, not its class"),
        (3, X, "give a module"),
        (Attention(), None, "give inputs="),
    ],
)
def test_what_cannot_be_compared_is_told(candidate: Any, inputs: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        attnscope.verify(candidate, Attention(), inputs=inputs)


class Silent(nn.Module):
    def forward(self, x: Tensor) -> int:
        return x.dim()


def test_outputs_without_tensors_are_told() -> None:
    with pytest.raises(InputError, match="no float tensors match"):
        attnscope.verify(Silent(), Silent(), inputs=X)


class Wider(Attention):
    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return torch.cat([out, out], -1)


def test_another_shape_is_a_difference_of_its_own() -> None:
    first = attnscope.verify(Wider(), Attention(), inputs=X).first_difference
    assert first is not None
    assert (first.stage, first.verdict) == ("model", "shape")


class Twice(Attention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.1 * super().forward(2 * x)


def test_calls_without_partner_are_a_difference_of_their_own() -> None:
    extra = attnscope.verify(Twice(), Attention(), inputs=X).first_difference
    missing = attnscope.verify(Attention(), Twice(), inputs=X).first_difference
    assert extra is not None
    assert missing is not None
    assert {extra.verdict, missing.verdict} <= {"extra", "missing", "whole", "numbers"}


def overflowing(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((200 * q).half() @ (200 * k).half().mT / (200**2 * q.shape[-1] ** 0.5)).softmax(-1).to(
        v.dtype
    ) @ v


def test_overflow_is_found_though_the_arithmetic_agrees() -> None:
    first = attnscope.verify(Attention(overflowing), Attention(), inputs=X).first_difference
    assert first is not None
    assert first.explanation is not None
    assert first.explanation.key == "rounding"


def in_half(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).bfloat16().softmax(-1).float() @ v


def all_in_half(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_hand(q.bfloat16(), k.bfloat16(), v.bfloat16()).float()


def test_rounding_beyond_the_type_of_q_is_named_and_that_of_the_type_is_none() -> None:
    first = attnscope.verify(in_half, by_hand).first_difference
    assert first is not None
    assert first.explanation is not None
    assert first.explanation.key == "rounding"
    assert "bfloat16" in first.explanation.text
    assert attnscope.verify(all_in_half, by_hand).equal


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_models_of_other_types(dtype: torch.dtype) -> None:
    x = X.to(dtype)
    assert attnscope.verify(Attention().to(dtype), Attention().to(dtype), inputs=x).equal
    result = attnscope.verify(Attention(not_scaled).to(dtype), Attention().to(dtype), inputs=x)
    assert result.first_difference is not None
    assert result.first_difference.explanation is not None
    assert result.first_difference.explanation.key == "scale"


def test_dropout_in_one_is_named_and_in_both_compared_without() -> None:
    def dropping(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.dropout((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1), 0.3) @ v

    first = attnscope.verify(Attention(dropping), Attention(), inputs=X).first_difference
    assert first is not None
    assert first.explanation is not None
    assert (first.stage, first.explanation.key) == ("weights", "dropout")
    both = [nn.MultiheadAttention(12, 3, dropout=0.4, batch_first=True) for _ in range(2)]
    result = attnscope.verify(*both, inputs=(X, X, X))
    assert result.equal
    assert any("eval mode" in note for note in result.notes)
    assert all(module.training for module in both)


def test_a_numpy_function_is_a_side_like_any_other() -> None:
    def specified(q: Any, k: Any, v: Any) -> Any:
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)

    assert attnscope.verify(by_hand, specified).equal
    assert attnscope.verify(specified, by_hand).equal
    first = attnscope.verify(not_scaled, specified).first_difference
    assert first is not None
    assert first.explanation is not None
    assert first.explanation.key == "scale"


def test_a_module_against_the_definition() -> None:
    result = attnscope.verify(Attention(), attnscope.reference, inputs=X)
    assert result.equal
    assert "was given q, k and v" in result.notes[0]
    causal = {"causal": True}
    wrong = attnscope.verify(Attention(), attnscope.reference, inputs=X, expect=causal)
    assert wrong.first_difference is not None
    assert wrong.first_difference.explanation is not None
    assert wrong.first_difference.explanation.key == "mask-missing"


def test_gradients_decide_too() -> None:
    def cut(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return by_hand(q, k.detach(), v)

    first = attnscope.verify(cut, by_hand).first_difference
    assert first is not None
    assert first.stage == "grad.k"
    assert first.explanation is not None
    assert first.explanation.key == "gradient-stopped"
    assert "detach at" in first.explanation.text
    assert attnscope.verify(cut, by_hand, gradients=False).equal


def test_a_result_can_be_judged_again() -> None:
    def nearly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT / q.shape[-1] ** 0.5 * (1 + 1e-4)).softmax(-1) @ v

    result = attnscope.verify(nearly, by_hand, gradients=False)
    assert not result.equal
    assert result.judged(1e4).equal
    again = result.judged(1.0)
    assert not again.equal
    assert again.first_difference == result.first_difference
    assert attnscope.verify(nearly, by_hand, gradients=False, factor=1e4).equal


def test_json_has_the_form_of_the_contract_and_only_numbers_that_json_knows() -> None:
    result = attnscope.verify(Attention(not_scaled), Attention(), inputs=X)
    written = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert written["schema"] == "attnscope.verify/1"
    assert {"candidate", "reference", "equal", "compared", "conditions", "stages"} <= set(written)
    first = written["first_difference"]
    wanted = {"stage", "call", "module", "source", "index", "largest", "own_error"}
    assert wanted | {"inherited_error", "explanation"} <= set(first)
    assert set(first["source"]) == {"file", "line", "function"}
    assert set(first["explanation"]) == {"key", "text", "remains"}
    assert {"stage", "call", "largest", "equal"} <= set(written["stages"][0])


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "gpt2", "gpt_oss", "deepseek_v3", "swin"])
def test_the_kernels_of_a_library_agree(name: str) -> None:
    fused, eager = build(name), build(name, attn_implementation="eager")
    result = attnscope.verify(eager.model, fused.model, inputs=fused.inputs, matrix=False)
    assert result.equal, result.first_difference
