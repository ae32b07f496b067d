"""What stays equal, and what stays as it was, in uses that are less plain."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.errors import InputError
from attnscope.targets.architectures import build

X = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(5))


def encoder() -> nn.TransformerEncoderLayer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)


class Around(nn.Module):
    """An encoder layer, and something of one's own before it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = encoder()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return out


class Changing(Around):
    def forward(self, x: Tensor) -> Tensor:
        x *= 2.0
        x /= 2.0
        return super().forward(x)


class WithoutGradients(Around):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return super().forward(x)


class Normalised(Around):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm(x.transpose(1, 2)).transpose(1, 2))


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@pytest.mark.parametrize("size", [1, 15, 30, 100])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_saturated_attention_is_equal_however_much_float32_rounds(size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 4, 32, 16, generator=generator) for _ in range(3))
    inputs = (size * q, size * k, v)
    assert attnscope.verify(by_hand, F.scaled_dot_product_attention, inputs=inputs).equal


def test_parameters_frozen_on_one_side_are_not_compared_and_inputs_are() -> None:
    frozen = encoder().requires_grad_(requires_grad=False)
    result = attnscope.verify(frozen, encoder(), inputs=X)
    assert result.equal
    names = {stage.stage for stage in result.stages}
    assert "grad.input" in names
    assert "grad.parameter" not in names


def test_a_float_input_may_be_changed_in_place() -> None:
    x = X.clone()
    assert attnscope.verify(Changing(), Around(), inputs=x).equal
    assert torch.equal(x, X)


def test_a_forward_without_gradients_differs_where_the_reference_has_them() -> None:
    first = attnscope.verify(WithoutGradients(), Around(), inputs=X).first_difference
    assert first is not None
    assert first.stage == "grad.output"
    assert first.explanation is not None
    assert first.explanation.key == "gradient-stopped"
    assert attnscope.verify(WithoutGradients(), Around(), inputs=X, gradients=False).equal
    assert attnscope.verify(WithoutGradients(), WithoutGradients(), inputs=X).equal


def test_running_statistics_of_a_norm_left_in_train_mode_stay() -> None:
    sides = [Normalised().eval() for _ in range(2)]
    for side in sides:
        side.norm.train()
    before = copy.deepcopy(sides[0].state_dict())
    assert attnscope.verify(sides[0], sides[1], inputs=X).equal
    assert all(torch.equal(v, sides[0].state_dict()[name]) for name, v in before.items())


def test_a_graph_made_before_can_still_go_back() -> None:
    candidate = Around()
    for parameter in candidate.parameters():
        parameter.data.normal_()
    loss = candidate(X).sum()
    assert attnscope.verify(candidate, Around(), inputs=X).equal
    loss.backward()
    assert all(parameter.grad is not None for parameter in candidate.parameters())


def test_more_precise_than_the_reference_is_no_fault() -> None:
    def in_double(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return by_hand(q.double(), k.double(), v.double())

    assert attnscope.verify(in_double, by_hand).equal


def test_models_of_two_types_are_held_to_the_coarser() -> None:
    built = build("llama")
    half = copy.deepcopy(built.model).bfloat16()
    assert attnscope.verify(half, built.model, inputs=built.inputs).equal
    with torch.no_grad():
        half.get_parameter("model.layers.1.self_attn.o_proj.weight").mul_(-1)
    assert not attnscope.verify(half, built.model, inputs=built.inputs, weights="keep").equal


class Empty(nn.Module):
    """Causal attention in which a padded start sees nothing; -inf makes it NaN."""

    def __init__(self, fill: float) -> None:
        super().__init__()
        self.fill = fill
        generator = torch.Generator().manual_seed(4)
        self.weights = nn.Parameter(torch.randn(2, 3, 32, 32, generator=generator) / 6)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        length = x.shape[1]
        visible = torch.ones(length, length).tril().bool() & attention_mask.bool()[:, None]
        for weights in self.weights:
            q, k, v = (x @ weight for weight in weights)
            scores = (q @ k.mT / 32**0.5).masked_fill(~visible, self.fill)
            x = x + scores.softmax(-1) @ v
        return x


def test_rows_that_see_nothing_do_not_count_and_their_nan_does_where_it_reaches_others() -> None:
    keep = torch.ones(2, 7, dtype=torch.int64)
    keep[0, :3] = 0
    inputs = {"x": X, "attention_mask": keep}
    low, lower = Empty(torch.finfo(torch.float32).min), Empty(-1e30)
    assert attnscope.verify(low, lower, inputs=inputs, matrix=False).equal
    first = attnscope.verify(Empty(float("-inf")), low, inputs=inputs).first_difference
    assert first is not None
    assert (first.stage, first.call, first.verdict) == ("context", 0, "non-finite")
    assert first.explanation is not None
    assert first.explanation.key == "empty-rows"


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Averaging(nn.Module):
    """In the place of attention: the same mean for all."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x.mean(1, keepdim=True)


def test_a_layer_without_attention_leaves_the_others_with_their_partners() -> None:
    candidate = Stack(Averaging(), Around(), Around())
    reference = Stack(Around(), Around(), Around())
    result = attnscope.verify(candidate, reference, inputs=X, weights="keep", gradients=False)
    assert not result.equal
    assert {s.module for s in result.stages if s.call == 1} == {"layers.1.layer.self_attn"}
    assert [each.call.module for each in result.alignment.missing] == ["layers.0.layer.self_attn"]


@pytest.mark.parametrize("factor", [0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_means_nothing_is_refused(factor: float) -> None:
    with pytest.raises(InputError, match="a number above 0"):
        attnscope.verify(by_hand, by_hand, factor=factor)


def test_an_unknown_expectation_is_refused() -> None:
    with pytest.raises(InputError, match=r"'casual'.*causal"):
        attnscope.verify(by_hand, by_hand, expect={"casual": True})


@pytest.mark.parametrize("name", ["half", "bfloat16"])
def test_frequencies_rounded_with_the_model_are_no_fault_and_hide_none(name: str) -> None:
    built = build("llama")
    reference = getattr(copy.deepcopy(built.model), name)()
    candidate = copy.deepcopy(reference)
    rotary = candidate.get_submodule("model.rotary_emb")
    rotary.inv_freq = built.model.get_buffer("model.rotary_emb.inv_freq").clone()
    result = attnscope.verify(candidate, reference, inputs=built.inputs, matrix=False)
    assert result.equal
    if name == "bfloat16":  # in float16 they are too near to be seen
        assert any("times as wide" in note for note in result.notes)
    candidate.get_submodule("model.layers.1.self_attn").scaling *= 1.1
    first = attnscope.verify(candidate, reference, inputs=built.inputs).first_difference
    assert first is not None
    assert first.explanation is not None
    assert (first.stage, first.call, first.explanation.key) == ("scores", 1, "scale")
