"""Layers that adapters wrap and tensors that parametrizations make, against plain ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from attnscope.differ.weights import pair
from attnscope.errors import InputError

WIDTH, RANK = 16, 4


class Attention(nn.Module):
    def __init__(self, around: Callable[[nn.Linear], nn.Module] | None = None) -> None:
        super().__init__()
        for name in "qkvo":
            layer = nn.Linear(WIDTH, WIDTH)
            self.add_module(name, around(layer) if around and name in "qv" else layer)


class Fused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_qkv, self.to_output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)


class Adapted(nn.Module):  # as peft names its parts
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(WIDTH, RANK, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(RANK, WIDTH, bias=False)})
        nn.init.zeros_(self.lora_B["default"].get_parameter("weight"))


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.linear = base
        self.A = nn.Parameter(torch.randn(WIDTH, RANK))
        self.B = nn.Parameter(torch.zeros(RANK, WIDTH))


class Inside(nn.Linear):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__(base.in_features, base.out_features)
        self.lora_A = nn.Parameter(torch.randn(RANK, WIDTH))
        self.lora_B = nn.Parameter(torch.zeros(WIDTH, RANK))


@pytest.mark.parametrize("reference", [Attention, Fused])
@pytest.mark.parametrize("around", [Adapted, LoRALinear, Inside])
def test_an_adapter_of_zeros_changes_nothing(
    around: Callable[[nn.Linear], nn.Module], reference: Callable[[], nn.Module]
) -> None:
    found = pair(Attention(around), reference())
    plain = pair(Attention(), reference())
    assert [one.arrangement for one in found] == [one.arrangement for one in plain]
    assert len(found.left) == 4
    assert all(left.why.startswith("changes nothing: ") for left in found.left)
    other = pair(reference(), Attention(around))
    assert {left.side for left in other.left} == {"reference"}


def test_an_adapter_that_was_trained_is_no_silence() -> None:
    candidate = Attention(Adapted)
    nn.init.ones_(candidate.get_parameter("v.lora_B.default.weight"))
    with pytest.raises(InputError) as error:
        pair(candidate, Attention())
    assert "v.lora_A.default.weight (4, 16), v.lora_B.default.weight (16, 4) found" in str(
        error.value
    )
    assert "q.lora" not in str(error.value)


def normed(names: str = "qkvo") -> Attention:
    model = Attention()
    for name in names:
        parametrizations.weight_norm(model.get_submodule(name))
    return model


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def weight(model: nn.Module, name: str) -> Tensor:
    found = getattr(model.get_submodule(name), "weight")  # noqa: B009  it is computed
    assert isinstance(found, Tensor)
    return found


@pytest.mark.parametrize("reference", [Attention, Fused, lambda: normed("qk")])
def test_a_weight_norm_takes_the_reference_s_values_and_gives_its_own_back(
    reference: Callable[[], nn.Module],
) -> None:
    candidate = normed()
    found, before = pair(candidate, reference()), state(candidate)
    assert found["q.weight"].note == "set through the inverse of its parametrization"
    with found.apply():
        for name in "qkvo":
            torch.testing.assert_close(weight(candidate, name), found.value(f"{name}.weight"))
        assert all(ours == theirs for ours, theirs in found.checksums().values())
        again = pair(candidate, reference()) if reference is Attention else None
    assert again is None or again.copied
    assert all(torch.equal(value, before[name]) for name, value in state(candidate).items())
    names = {name for one in found.gradient_pairs() for name in one.candidate}
    assert names == {f"{name}.bias" for name in "qkvo"}


def test_a_weight_norm_that_holds_the_values_needs_no_copy() -> None:
    reference, candidate = Attention(), Attention()
    candidate.load_state_dict(reference.state_dict())
    for name in "qk":
        parametrizations.weight_norm(candidate.get_submodule(name))
    for one in (*pair(candidate, reference), *pair(reference, candidate)):
        assert one.proof == "equal"


def test_the_reference_may_be_parametrized() -> None:
    candidate, reference = Attention(), normed()
    found = pair(candidate, reference)
    with found.apply():
        assert torch.equal(weight(candidate, "q"), weight(reference, "q"))
    names = {name for one in found.gradient_pairs() for name in one.candidate}
    assert names == {f"{name}.bias" for name in "qkvo"}


def test_both_alike_pair_in_what_they_are_made_of() -> None:
    found = pair(normed(), normed())
    assert "q.parametrizations.weight.original0" in {one.candidate for one in found}
    assert len(found.gradient_pairs()) == len(found) == 12


def test_looking_at_a_spectral_norm_does_not_iterate_it() -> None:
    candidate = Attention()
    parametrizations.spectral_norm(candidate.get_submodule("q"))
    before = state(candidate)
    pair(candidate, Attention())
    assert all(torch.equal(value, before[name]) for name, value in state(candidate).items())
    assert all(module.training for module in candidate.modules())


class Doubled(nn.Module):
    def forward(self, tensor: Tensor) -> Tensor:
        return 2 * tensor


def test_a_parametrization_without_inverse_is_an_error() -> None:
    candidate = Attention()
    parametrize.register_parametrization(candidate.get_submodule("q"), "weight", Doubled())
    before = state(candidate)
    found = pair(candidate, Attention())
    with pytest.raises(InputError, match=r"q\.weight is made by a parametrization that has no inv"):
        found.apply()
    assert all(torch.equal(value, before[name]) for name, value in state(candidate).items())
