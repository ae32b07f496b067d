"""The feed-forward part against its formula, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnscope.errors import InputError
from attnscope.nn import FeedForward, FeedForwardNetwork, geglu, swiglu
from attnscope.nn.feedforward import ACTIVATIONS


def test_a_plain_part_is_two_matrices() -> None:
    part = FeedForwardNetwork(6, FeedForward(ratio=2, activation="relu"))
    x = torch.randn(2, 3, 6)
    assert torch.equal(part(x), part.linear2(F.relu(part.linear1(x))))
    assert part.linear1.out_features == 12


@pytest.mark.parametrize(("how", "activation"), [(swiglu(), F.silu), (geglu(), F.gelu)])
def test_a_gated_part_multiplies(how: FeedForward, activation: object) -> None:
    part = FeedForwardNetwork(6, how)
    x = torch.randn(2, 3, 6)
    assert callable(activation)
    expected = part.linear2(activation(part.gate(x)) * part.linear1(x))
    assert torch.equal(part(x), expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_keeps_the_shape_and_differs_from_the_others(name: str) -> None:
    x = torch.linspace(-2, 2, 9)
    own = ACTIVATIONS[name](x)
    assert own.shape == x.shape
    assert not any(torch.equal(own, f(x)) for other, f in ACTIVATIONS.items() if other != name)


def test_a_gated_part_of_two_thirds_has_as_many_parameters() -> None:
    def count(how: FeedForward) -> int:
        return sum(one.numel() for one in FeedForwardNetwork(96, how, bias=False).parameters())

    assert count(swiglu()) == count(FeedForward(ratio=4))


def test_hidden_goes_before_ratio() -> None:
    assert FeedForward(ratio=9, hidden=5).size(6) == 5


def test_dropout_acts_on_the_hidden_features() -> None:
    part = FeedForwardNetwork(6, dropout=1.0, bias=False)
    x = torch.randn(2, 6)
    assert torch.equal(part(x), torch.zeros(2, 6))
    assert not torch.equal(part.eval()(x), torch.zeros(2, 6))


def test_no_bias_means_none() -> None:
    assert FeedForwardNetwork(6, swiglu(), bias=False).gate.bias is None
    assert isinstance(FeedForwardNetwork(6).linear1.bias, nn.Parameter)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"activation": "swish2"}, "activation='swish2'"),
        ({"ratio": 0}, "ratio=0"),
        ({"hidden": -3}, "hidden=-3"),
    ],
)
def test_what_can_not_be_built_is_refused(arguments: dict[str, object], found: str) -> None:
    with pytest.raises(InputError) as error:
        FeedForward(**arguments)  # type: ignore[arg-type]
    assert error.value.found == found
