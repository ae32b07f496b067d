"""What a test may name as a target, and what is handed to the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.errors import InputError, TargetError
from attnscope.testing import checked
from tests.testing.standin import Engine, X, net

pytestmark = pytest.mark.usefixtures("engine")


def draws() -> nn.Module:
    return nn.Linear(4, 4, bias=False)


class Module(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


def mix(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT


MADE = Module()


@pytest.mark.parametrize("target", [net, Module, lambda: Module(8)], ids=["function", "class", "λ"])
def test_what_makes_a_module_is_called(engine: Engine, target: Callable[[], nn.Module]) -> None:
    checked(target, X)
    assert isinstance(engine.asked[0].model, nn.Module)


@pytest.mark.parametrize("target", [MADE, mix], ids=["module", "function of tensors"])
def test_what_takes_tensors_is_checked_itself(engine: Engine, target: Any) -> None:
    checked(target, (X, X))
    assert engine.asked[0].model is target


def test_the_same_parameters_are_drawn_whatever_was_drawn_before(engine: Engine) -> None:
    for seed in (0, 0, 1):
        torch.rand(3)
        before = torch.get_rng_state()
        checked(draws, X, seed=seed)
        assert torch.equal(torch.get_rng_state(), before)
    first, again, other = (asked.model.weight for asked in engine.asked)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert [asked.seed for asked in engine.asked] == [0, 0, 1]


@pytest.mark.parametrize(
    ("inputs", "handed"),
    [(X, (X,)), ((X,), (X,)), ({"x": X}, {"x": X}), (lambda: X, (X,))],
    ids=["tensor", "tuple", "dict", "function"],
)
def test_inputs_may_have_every_form_of_the_command_line(
    engine: Engine, inputs: Any, handed: Any
) -> None:
    checked(net, inputs)
    assert engine.asked[0].inputs == handed


def test_inputs_are_made_for_a_module_that_has_none(engine: Engine) -> None:
    checked(Module)
    (made,) = engine.asked[0].inputs.values()
    assert made.shape[-1] == 4


def test_what_is_expected_reaches_the_engine(engine: Engine) -> None:
    checked(net, X, expect={"causal": True})
    assert engine.asked[0].expect == {"causal": True}
    with pytest.raises(TargetError, match="there is no key 'casual'; did you mean causal"):
        checked(net, X, expect={"casual": True})


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        (lambda: 3, InputError, "int, which can't be called with tensors"),
        (lambda: Module, InputError, "which can't be called with tensors"),
        (nn.Linear, TargetError, "it needs the arguments in_features, out_features"),
        ("nowhere.py:net", TargetError, "there is no file nowhere.py"),
        (3, InputError, "can't be called with tensors"),
    ],
    ids=["number", "class", "arguments", "file", "no function"],
)
def test_what_can_t_be_checked_is_refused(target: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        checked(target, X)


def test_a_builder_that_raises_is_named_with_its_line() -> None:
    def breaks() -> nn.Module:
        raise RuntimeError("no such width")

    with pytest.raises(TargetError, match=r"no such width at .*test_running.py:\d+"):
        checked(breaks, X)
