"""The audit: projections, schemes, numbers and verdicts, on models written by anybody."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.errors import InputError
from attnscope.nn import (
    Causal,
    CausalLanguageModel,
    Design,
    EncoderDecoder,
    EncoderLayer,
    HeadwiseOutput,
    MultiheadAttention,
    Rotary,
    Sinks,
    init,
)
from attnscope.targets.architectures import build
from tests.nn.init.writing import Bare, ByTurns, Nameless, Separate, Turned

WIDTH, HEADS, LENGTH = 64, 4, 32


def tokens(batch: int = 2) -> Tensor:
    return torch.randn(batch, LENGTH, WIDTH)


# -- numbers ---------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_call_by_definition() -> None:
    model, x = Separate(WIDTH, HEADS), tokens()
    found = init.audit(model, x)[0]
    q, k, v = (
        to(x).view(2, LENGTH, HEADS, -1).transpose(1, 2).double()
        for to in (model.to_q, model.to_k, model.to_v)
    )
    raw = (q @ k.mT).detach()
    scores = raw / 4
    weights = scores.softmax(-1)
    entropy = -(weights * weights.log()).sum(-1).mean() / math.log(LENGTH)
    sharpness = found.sharpness

    for mine, tensor in ((sharpness.q, q), (sharpness.k, k), (sharpness.v, v)):
        assert mine == pytest.approx(float(tensor.detach().std(correction=0)), rel=1e-5)
    assert sharpness.raw_scores == pytest.approx(float(raw.std(correction=0)), rel=1e-5)
    assert sharpness.scores == pytest.approx(float(scores.var(-1).mean().sqrt()), rel=1e-5)
    assert found.entropy_share == pytest.approx(float(entropy), rel=1e-5)
    assert found.input_std == pytest.approx(float(x.std(correction=0)), rel=1e-5)
    assert found.output_std == pytest.approx(float(model(x).detach().std(correction=0)), rel=1e-4)
    out_std = float(model(x).detach().std(correction=0))
    assert found.ratio == pytest.approx(out_std / float(x.std(correction=0)), rel=1e-4)
    assert found["q"].std == pytest.approx(float(model.to_q.weight.detach().std(correction=0)))


def test_entropy_counts_visible_keys_alone() -> None:
    model = MultiheadAttention(WIDTH, HEADS, batch_first=True, mask=Causal())
    nn.init.zeros_(model.in_proj_weight)  # every row is uniform over what it sees
    found = init.audit(model, *(tokens(),) * 3)[0]
    assert found.entropy_share == pytest.approx(1.0, abs=1e-6)
    assert found.sharpness.keys == (LENGTH + 1) / 2
    assert found.verdict == "uniform"


def test_a_row_that_a_mask_with_a_finite_fill_leaves_is_measured_without_the_hidden_keys() -> None:
    built = build("llama", attn_implementation="eager")
    sharpness = init.audit(built.model, **built.inputs)[0].sharpness
    assert sharpness.keys is not None
    assert sharpness.keys < 11
    assert sharpness.scores is not None
    assert sharpness.scores < 1


def test_a_sink_takes_part_in_the_entropy() -> None:
    torch.manual_seed(1)
    plain = MultiheadAttention(WIDTH, HEADS, batch_first=True)
    torch.manual_seed(1)
    sunk = MultiheadAttention(WIDTH, HEADS, batch_first=True, sinks=Sinks(HEADS, start=20.0))
    x = tokens()
    assert init.audit(plain, x, x, x)[0].verdict == "sane"
    assert init.audit(sunk, x, x, x)[0].verdict == "saturated"  # one outcome takes nearly all


# -- projections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fused", [False, True], ids=["with-gradients", "fused-inference"])
def test_torch_s_attention_is_audited_by_thirds(*, fused: bool) -> None:
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).train(not fused)
    x = tokens()
    with torch.set_grad_enabled(not fused):
        found = init.audit(module, x, x, x, need_weights=False)[0]

    expected = math.sqrt(2 / (4 * WIDTH))
    for side, part in zip("qkv", module.in_proj_weight.detach().chunk(3), strict=True):
        one = found[side]
        assert one.scheme == "xavier-uniform"
        assert one.expected == pytest.approx(expected)
        assert one.std == pytest.approx(float(part.double().std(correction=0)))
        assert (one.fan_in, one.fan_out, one.drawn_fan_out) == (WIDTH, WIDTH, 3 * WIDTH)
    assert found["o"].scheme == "torch-default"
    assert found["o"].name == "out_proj.weight"
    assert found.verdict == "sane"
    assert found.ratio is not None
    assert not found.notes


def test_cross_attention_of_another_width_has_its_own_fan_in() -> None:
    module = nn.MultiheadAttention(WIDTH, HEADS, kdim=48, vdim=40, batch_first=True)
    found = init.audit(module, tokens(), torch.randn(2, 9, 48), torch.randn(2, 9, 40))[0]
    assert [found[side].fan_in for side in "qkvo"] == [WIDTH, 48, 40, WIDTH]
    assert {found[side].scheme for side in "qkv"} == {"xavier-uniform"}


def test_a_stack_of_torch_layers_is_audited_layer_by_layer() -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 128, batch_first=True)
    stack = nn.TransformerEncoder(layer, 2).eval()
    with torch.no_grad():
        found = init.audit(stack, tokens())
    assert [call["k"].name for call in found.calls] == [
        "layers.0.self_attn.in_proj_weight",
        "layers.1.self_attn.in_proj_weight",
    ]
    assert all(len(call.projections) == 4 and call.ratio for call in found.calls)


def test_rows_of_heads_by_turns_are_told_apart() -> None:
    model = ByTurns(WIDTH, HEADS)
    with torch.no_grad():
        rows = model.mix.weight.view(HEADS, 3, WIDTH // HEADS, WIDTH)
        for at, std in enumerate((0.1, 0.2, 0.3)):
            rows[:, at].normal_(0, std)
    found = init.audit(model, tokens())[0]
    assert [round(found[side].std, 1) for side in "qkv"] == [0.1, 0.2, 0.3]
    assert found["o"].name == "last.weight"  # by the value that it received, not by its name
    assert found["o"].found_by == "value"


def test_bare_parameters_of_each_head_are_found() -> None:
    found = init.audit(Bare(WIDTH, HEADS), tokens())[0]
    assert [one.name for one in found.projections] == ["W_Q", "W_K", "W_V", "W_O"]
    assert [(one.fan_in, one.fan_out) for one in found.projections] == [(WIDTH, WIDTH)] * 4
    assert {one.scheme for one in found.projections} == {"normal"}
    assert found.ratio is not None


def test_weights_behind_a_view_are_found_by_name() -> None:
    found = init.audit(Turned(WIDTH, HEADS), tokens())[0]
    assert [one.found_by for one in found.projections] == ["name"] * 4
    assert [one.name for one in found.projections] == ["qkv.weight"] * 3 + ["proj.weight"]
    assert {one.scheme for one in found.projections} == {"torch-default"}


def test_what_can_not_be_found_is_said() -> None:
    found = init.audit(Nameless(WIDTH), tokens())
    assert not found[0].projections
    assert len([note for note in found[0].notes if note.startswith("projection ")]) == 4
    assert "projection q: no parameter was found behind it" in str(found)
    with pytest.raises(KeyError):
        found[0]["q"]


def test_a_plain_function_is_judged_without_projections() -> None:
    def attend(q: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(q, q, q)

    found = init.audit(attend, torch.randn(1, 2, 8, 16) / 4)
    assert found[0].verdict in {"uniform", "sane"}
    assert not found[0].projections


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"kv_heads": 2, "positions": Rotary()},
        {"output": HeadwiseOutput()},
        {"qk_norm": nn.RMSNorm, "context_norm": nn.LayerNorm},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
    ],
    ids=lambda parts: "+".join(parts) or "plain",
)
def test_our_own_attention_is_found_whole(parts: dict[str, object]) -> None:
    module = MultiheadAttention(WIDTH, HEADS, batch_first=True, **parts)  # type: ignore[arg-type]
    found = init.audit(module, *(tokens(),) * 3)[0]
    assert [one.side for one in found.projections] == ["q", "k", "v", "o"]
    assert all(one.fits for one in found.projections)
    assert found.ratio is not None
    assert not found.notes


def test_our_own_models_are_found_whole() -> None:
    ids = torch.randint(0, 50, (2, 9))
    for model, inputs, calls in (
        (CausalLanguageModel(Design(vocabulary=50)), (ids,), 2),
        (EncoderDecoder(Design(vocabulary=50)), (ids, ids[:, :5]), 6),
    ):
        found = init.audit(model, *inputs)
        assert len(found) == calls
        assert {one.scheme for call in found.calls for one in call.projections} == {
            "scaled-residual"
        }
        assert all(len(call.projections) == 4 and call.ratio for call in found.calls)


# -- architectures ---------------------------------------------------------------------------------

EXPECTED = {
    "albert": {"normal"},
    "bert": {"normal"},
    "bloom": {"normal"},
    "codegen": {"normal"},
    "falcon": {"normal"},
    "gemma2": {"normal"},
    "gpt2": {"scaled-residual"},
    "gpt_neox": {"normal"},
    "gptj": {"normal"},
    "llama": {"normal"},
    "swin": {"normal"},
    "t5": {"t5"},
    "whisper": {"normal"},
    "xlnet": {"normal"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_architectures_of_hugging_face_are_found_whole(name: str) -> None:
    built = build(name)
    found = init.audit(built.model, **built.inputs)
    for call in found.calls:
        assert [one.side for one in call.projections] == ["q", "k", "v", "o"]
        assert call.verdict in {"uniform", "sane"}
        assert call.ratio is not None
    assert {one.scheme for call in found.calls for one in call.projections} == EXPECTED[name]
    json.dumps(found.to_json(), allow_nan=False)


def test_trained_weights_fit_no_scheme() -> None:
    model = Separate(WIDTH, HEADS)
    x = tokens(8)
    optimiser = torch.optim.SGD(model.parameters(), lr=2.0)
    for _ in range(30):
        optimiser.zero_grad()
        (model(x) - x.roll(1, 1)).square().mean().backward()
        optimiser.step()
    found = init.audit(model, x)
    assert found[0]["v"].scheme is None
    assert found[0]["v"].expected is None
    assert "none known" in str(found)


# -- schemes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scheme",
    [
        init.TorchDefault(),
        init.XavierUniform(),
        init.XavierUniform(together=False),
        init.XavierNormal(),
        init.XavierNormal(together=False),
        init.KaimingUniform(),
        init.KaimingNormal(),
        init.Normal(),
        init.ScaledResidual(),
        init.T5(),
    ],
    ids=str,
)
def test_every_scheme_is_told_from_the_others(scheme: init.Scheme) -> None:
    model = CausalLanguageModel(Design(vocabulary=50, width=96, scheme=scheme))
    found = init.audit(model, torch.randint(0, 50, (2, 9)))
    named = {one.scheme for call in found.calls for one in call.projections}
    assert {str(one).removesuffix(", apart") for one in named} == {scheme.name}


def test_a_given_scheme_is_held_against_every_projection() -> None:
    model = CausalLanguageModel(Design(vocabulary=50, scheme=init.Normal(0.03)))
    ids = torch.randint(0, 50, (2, 9))
    right = init.audit(model, ids, scheme=init.Normal(0.03))
    wrong = init.audit(model, ids, scheme=init.Normal(0.02))
    assert right.scheme == "normal"
    assert all(one.fits for call in right.calls for one in call.projections)
    assert not any(one.fits for call in wrong.calls for one in call.projections)
    assert "not normal" in str(wrong)
    assert wrong[0]["q"].expected == 0.02


# -- face ------------------------------------------------------------------------------------------


def test_the_text_is_two_aligned_tables() -> None:
    text = str(init.audit(Separate(WIDTH, HEADS), tokens()))
    lines = text.split("\n")
    assert lines[0].split() == "# projection side fan_in fan_out std expected scheme".split()
    assert lines[1].split()[:5] == ["0", "to_q.weight", "q", "64", "64"]
    assert lines[1].split()[-1] == "torch-default"
    assert lines[6].split()[:3] == ["#", "module", "q"]
    assert lines[7].split()[-1] == "uniform"
    assert len({line.index("fan_in") + len("fan_in") for line in lines[:1]}) == 1
    assert all(line[: lines[0].index("  side")].rstrip().endswith(".weight") for line in lines[1:5])


def test_the_json_carries_everything() -> None:
    found = init.audit(Separate(WIDTH, HEADS), tokens())
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["schema"] == "attnscope.init-audit/1"
    assert data["verdict"] == "uniform"
    call = data["calls"][0]
    assert call["projections"][0]["scheme"] == "torch-default"
    assert call["sharpness"]["entropy"]["low"] < call["entropy_share"]
    assert call["ratio"] == pytest.approx(found[0].ratio)


def test_an_audit_leaves_no_hook_and_runs_the_model_once() -> None:
    class Counting(Separate):
        runs = 0

        def forward(self, x: Tensor) -> Tensor:
            self.runs += 1
            return super().forward(x)

    model = Counting(WIDTH, HEADS)
    before = [one.detach().clone() for one in model.parameters()]
    init.audit(model, tokens())
    assert model.runs == 1
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_hooks_are_gone_after_an_error_too() -> None:
    model = Separate(WIDTH, HEADS)
    with pytest.raises(RuntimeError):
        init.audit(model, torch.randn(2, 5, WIDTH + 1))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_output_is_judged_as_the_model_makes_it() -> None:
    layer = EncoderLayer(WIDTH, HEADS, norm=nn.LayerNorm).eval()
    x = tokens()
    audit = init.audit(layer, x)
    assert audit[0].module == attnscope.trace(layer, x)[0].module == "self_attn"
    attended = layer.self_attn(*(layer.norm1(x),) * 3)[0].detach()
    assert audit[0].output_std == pytest.approx(float(attended.std(correction=0)), rel=1e-4)


@pytest.mark.parametrize(
    ("model", "scheme", "text"),
    [
        (5, None, "a model of type int; give a module, or a function"),
        ("bert", None, "a model of type str"),
        (nn.Linear(2, 2), "xavier", "the scheme is 'xavier'; give a scheme as an object"),
        (nn.Linear(2, 2), init.T5, "the scheme is the class T5"),
    ],
)
def test_a_wrong_argument_is_told_before_the_model_runs(model: Any, scheme: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        init.audit(model, None, scheme=scheme)


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(InputError, match="no attention call"):
        init.audit(nn.Linear(3, 3), torch.randn(2, 3))
