"""Attention behind a gate of zero is judged on a copy, in which the gate is open."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.entry import check
from attnscope.checks.opening import opened
from attnscope.checks.subject.subject import Subject
from tests.checks.small import SelfAttention, noise


class Gated(nn.Module):
    def __init__(self, gate: float = 0.0, **more: Any) -> None:
        super().__init__()
        self.attention = SelfAttention()
        self.gate = nn.Parameter(torch.full((), gate), **more)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.gate * self.attention(x)
        return out


class Modulated(nn.Module):
    """The gate is what a linear layer that starts at zero makes of another input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = SelfAttention()
        self.gate = nn.Linear(4, 16)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        out: Tensor = x + self.gate(time)[:, None] * self.attention(x)
        return out


class Uncopied(Gated):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("holds a lock")


X = noise(2, 5, 16)


def test_a_gate_of_zero_is_opened_on_a_copy() -> None:
    model = Gated()
    other, gates = opened(Subject(model, X))
    assert gates == ("gate",)
    assert other.model is not model
    assert not bool(model.gate)
    assert not torch.equal(other.output, X)


def test_what_makes_the_gate_is_opened_too() -> None:
    other, gates = opened(Subject(Modulated(), (X, noise(2, 4))))
    assert gates == ("gate.weight", "gate.bias")
    assert not torch.equal(other.output, X)


@pytest.mark.parametrize(
    "model",
    [Gated(0.5), Gated(requires_grad=False), Uncopied()],
    ids=["open", "shut for good", "can't be copied"],
)
def test_others_are_judged_as_they_are(model: nn.Module) -> None:
    subject = Subject(model, X)
    assert opened(subject) == (subject, ())


def test_a_leak_behind_a_gate_is_found_and_the_gate_named() -> None:
    report = check(Gated(), X, expect={"causal": True}, select=["AS201"])
    assert [finding.code for finding in report.findings] == ["AS201"]
    assert any("gate starts at zero" in note for note in report.notes)
