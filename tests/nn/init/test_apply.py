"""Drawing a model anew: what is drawn, with which std, and what is left."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from attnscope.errors import InputError
from attnscope.nn import (
    CausalLanguageModel,
    Design,
    HeadwiseOutput,
    MultiheadAttention,
    Separate,
    Sinks,
    init,
)
from attnscope.targets.architectures import build


def std(weight: torch.Tensor) -> float:
    return float(weight.detach().double().std(correction=0))


def test_every_matrix_of_a_torch_layer_is_drawn_and_its_norms_are_left() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 256)
    nn.init.constant_(layer.norm1.weight, 3.0)
    done = init.apply(layer, init.Normal(0.02))

    left = [one.name for one in done if one.std is None]
    assert left == ["norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"]
    assert float(layer.norm1.weight.detach().mean()) == 3.0
    for name, parameter in layer.named_parameters():
        if parameter.dim() > 1:
            assert std(parameter) == pytest.approx(0.02, rel=0.05), name
        elif "norm" not in name:
            assert not parameter.any(), name
    listed = list(dict.fromkeys(one.name for one in done))
    assert listed == [name for name, _ in layer.named_parameters()]


def test_torch_s_default_draws_biases_too() -> None:
    layer = nn.Linear(400, 300)
    nn.init.zeros_(layer.bias)
    init.apply(layer, init.TorchDefault())
    assert float(layer.bias.detach().abs().max()) <= 1 / math.sqrt(400)
    assert std(layer.bias) == pytest.approx(1 / math.sqrt(3 * 400), rel=0.1)


def test_residual_weights_shrink_with_the_depth_of_the_whole_model() -> None:
    model: Any = CausalLanguageModel(Design(vocabulary=50, width=64, layers=3, scheme=None))
    init.apply(model, init.ScaledResidual())
    for layer in model.layers:
        assert std(layer.self_attn.out_proj.weight) == pytest.approx(0.02 / 6**0.5, rel=0.05)
        assert std(layer.linear2.weight) == pytest.approx(0.02 / 6**0.5, rel=0.05)
        assert std(layer.linear1.weight) == pytest.approx(0.02, rel=0.05)


def test_a_packed_projection_is_drawn_side_by_side() -> None:
    module = MultiheadAttention(64, 4, kv_heads=2)
    init.apply(module, init.T5())
    q, k, v = module.in_proj_weight.split([64, 32, 32])
    assert std(q) == pytest.approx((64 * 16) ** -0.5, rel=0.05)
    assert std(k) == pytest.approx(64**-0.5, rel=0.05)
    assert std(v) == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("together", [True, False])
def test_xavier_knows_packed_from_apart(*, together: bool) -> None:
    module = nn.MultiheadAttention(64, 4)
    init.apply(module, init.XavierNormal(together=together))
    expected = math.sqrt(2 / (4 * 64 if together else 2 * 64))
    assert std(module.in_proj_weight) == pytest.approx(expected, rel=0.03)


def test_separate_and_headwise_weights_are_drawn() -> None:
    module: Any = MultiheadAttention(64, 4, projections=Separate(), output=HeadwiseOutput())
    init.apply(module, init.KaimingNormal())
    for weight in (module.projections.q.weight, module.out_proj.weight):
        assert std(weight) == pytest.approx(math.sqrt(2 / 64), rel=0.05)


def test_what_has_no_known_layout_is_left_and_listed() -> None:
    module: Any = MultiheadAttention(64, 4, sinks=Sinks(4, start=0.5), add_bias_kv=True)
    done = {one.name: one for one in init.apply(module, init.Normal())}
    assert done["sinks.logits"].std is None
    assert done["sinks.logits"].note == "the layout of Sinks is not known"
    assert done["bias_k"].std is None
    assert float(module.sinks.logits.detach().mean()) == 0.5


def test_the_row_of_padding_stays_zero() -> None:
    table = nn.Embedding(10, 8, padding_idx=3)
    init.apply(table, init.Normal())
    assert not table.weight[3].any()
    assert table.weight[4].any()


def test_a_tied_table_is_drawn_once() -> None:
    model = CausalLanguageModel(Design(vocabulary=50))
    done = [one.name for one in init.apply(model, init.Normal())]
    assert done.count("embed.tokens.weight") == 1
    assert "head.weight" not in done
    assert model.head.weight is model.embed.tokens.weight


def test_a_convolution_s_fan_in_counts_its_kernel() -> None:
    layer = nn.Conv2d(8, 64, 5)
    init.apply(layer, init.KaimingNormal())
    assert std(layer.weight) == pytest.approx(math.sqrt(2 / (8 * 25)), rel=0.05)


@pytest.mark.parametrize("name", ["gpt2", "t5", "llama", "bert", "gpt_neox"])
def test_architectures_of_hugging_face_are_drawn_whole(name: str) -> None:
    model = build(name).model
    done = init.apply(model, init.KaimingUniform())
    assert not [one.name for one in done if one.std is None and one.note != "no matrix"]
    audit = init.audit(model, **build(name).inputs, scheme=init.KaimingUniform())
    assert all(one.fits for call in audit.calls for one in call.projections)


def test_gpt_2_s_own_first_values_come_out_again() -> None:
    built = build("gpt2")
    theirs = {name: std(one) for name, one in built.model.named_parameters() if one.dim() > 1}
    init.apply(built.model, init.ScaledResidual())
    for name, one in built.model.named_parameters():
        if one.dim() > 1:
            assert std(one) == pytest.approx(theirs[name], rel=0.15), name


def test_t5_finds_the_width_of_a_head_in_the_module() -> None:
    model = build("t5").model
    init.apply(model, init.T5())
    q = model.get_parameter("encoder.block.0.layer.0.SelfAttention.q.weight")
    assert std(q) == pytest.approx((32 * 8) ** -0.5, rel=0.1)


def test_an_error_leaves_the_module_as_it_was() -> None:
    module = nn.ModuleDict({"linear1": nn.Linear(8, 8), "q_proj": nn.Linear(8, 8)})
    before = [one.detach().clone() for one in module.parameters()]
    with pytest.raises(InputError, match="the width of a head is not known"):
        init.apply(module, init.T5())
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    init.apply(module, init.T5(), head_dim=4)


def test_a_generator_fixes_a_whole_model() -> None:
    models = [nn.TransformerEncoderLayer(16, 2, 32) for _ in range(2)]
    for model in models:
        init.apply(model, init.XavierUniform(), generator=torch.Generator().manual_seed(5))
    first, second = (torch.cat([p.flatten() for p in m.parameters()]) for m in models)
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    "module",
    [nn.MultiheadAttention(64, 4), MultiheadAttention(64, 4, kv_heads=2)],
    ids=["torch", "grouped"],
)
@pytest.mark.parametrize("scheme", [init.T5(), init.XavierNormal(), init.TorchDefault()], ids=str)
def test_each_part_of_a_packed_projection_is_listed_as_it_was_drawn(
    module: Any, scheme: init.Scheme
) -> None:
    done = init.apply(module, scheme)
    weights = [one for one in done if one.name == "in_proj_weight"]
    assert [one.role for one in weights] == ["q", "k", "v"]
    assert weights[0].rows == (0, 64)
    assert weights[-1].rows is not None
    assert weights[-1].rows[1] == len(module.in_proj_weight)
    for one in weights:
        assert one.rows is not None
        assert std(module.in_proj_weight[slice(*one.rows)]) == pytest.approx(one.std, rel=0.05)
    assert (weights[0].std == weights[1].std) == (scheme.name != "t5")
    biases = [one for one in done if one.name == "in_proj_bias"]
    assert [one.rows for one in biases] == [one.rows for one in weights]


def test_the_biases_of_q_k_and_v_are_drawn_by_their_own_part() -> None:
    class Louder(init.Normal):
        def bias_bound(self, place: init.Place) -> float:
            return {"q": 1.0, "k": 2.0, "v": 0.0}.get(place.role, 0.0)

    module = nn.MultiheadAttention(64, 4)
    done = [one for one in init.apply(module, Louder()) if one.name == "in_proj_bias"]
    assert [one.std for one in done] == [1 / 3**0.5, 2 / 3**0.5, 0.0]
    q, k, v = module.in_proj_bias.detach().abs().split(64)
    assert 0.5 < float(q.max()) <= 1 < float(k.max()) <= 2
    assert not v.any()


def test_projections_of_their_own_are_listed_whole() -> None:
    module = nn.MultiheadAttention(64, 4, kdim=48, vdim=40)
    done = {one.name: one for one in init.apply(module, init.Normal())}
    assert done["q_proj_weight"].rows is None
    assert done["q_proj_weight"].role == "q"
    assert std(module.k_proj_weight) == pytest.approx(0.02, rel=0.05)


def test_a_weight_without_entries_is_left() -> None:
    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(torch.empty(3, 0))
    done = init.apply(layer, init.TorchDefault())
    assert [(one.std, one.note) for one in done] == [(None, "no entries")] * 2


anything: Any = init  # arguments of wrong types are the point
LAYER = nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: anything.apply(LAYER, "xavier"),
            "the scheme is 'xavier'; give a scheme as an obj",
        ),
        (lambda: anything.apply(LAYER, init.Normal), "the scheme is the class Normal"),
        (lambda: anything.apply(LAYER, None), "the scheme is None"),
        (lambda: anything.apply(LAYER.weight, init.Normal()), "the module is of type Parameter"),
        (lambda: anything.apply(5, init.Normal()), "the module is 5; give an object of Module"),
        (lambda: anything.apply(LAYER, init.Normal(), generator=3), "the generator is 3"),
        (lambda: anything.apply(LAYER, init.Normal(), head_dim=0), "head_dim is 0"),
        (lambda: anything.apply(LAYER, init.Normal(), head_dim=2.5), "head_dim is 2.5"),
    ],
)
def test_a_wrong_argument_is_told_and_nothing_is_drawn(call: Any, text: str) -> None:
    before = LAYER.weight.detach().clone()
    with pytest.raises(InputError, match=text):
        call()
    assert torch.equal(LAYER.weight.detach(), before)
