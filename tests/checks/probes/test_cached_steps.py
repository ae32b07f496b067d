"""Steps with a cache: the ways they are taken, and that the model is put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.probes.cached_steps import cached_steps
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject


class Running(nn.Module):
    """A sum over all tokens so far; what came before is kept as the past, or in the module."""

    def __init__(self, *, forget: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.forget = forget
        self.kept: Tensor | None = None

    def summed(self, x: Tensor, past: Tensor | None) -> Tensor:
        before = 0.0 if past is None or self.forget else past
        return before + (x * self.weight).cumsum(1)


class Handed(Running):
    def forward(self, x: Tensor, past: Tensor | None = None) -> Any:
        output = self.summed(x, past)
        return output, output[:, -1:]


class Held(Running):
    def forward(self, x: Tensor) -> Tensor:
        output = self.summed(x, self.kept)
        self.kept = output[:, -1:]
        return output


def sequence(length: int = 7) -> Tensor:
    return torch.randn(2, length, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("kind", "cache"), [(Handed, "past"), (Held, "self")])
def test_all_ways_agree_where_nothing_is_forgotten(kind: type[Running], cache: str) -> None:
    right = cached_steps(Subject(kind(), sequence(), {"cache": cache}))
    assert len(right.ways) == 5
    assert not right.departures
    assert not right.raised
    wrong = cached_steps(Subject(kind(forget=True), sequence(), {"cache": cache}))
    assert [each.way for each in wrong.departures] == [
        "one token a step",
        "a prompt, then one token a step",
        "in two chunks",
        "in three chunks",
    ]
    first = wrong.departures[0]
    assert (first.step, first.position) == (1, 1)
    assert first.largest > 1000 * first.limit


def test_the_module_keeps_what_it_held() -> None:
    model = Held()
    model(sequence(3))
    before = model.kept
    cached_steps(Subject(model, sequence(), {"cache": "self"}))
    assert model.kept is before
    assert model.weight.dtype == torch.float32
    assert model.weight.grad is None


def test_inputs_that_are_too_few_and_models_that_keep_nothing() -> None:
    with pytest.raises(Skipped, match="has 1 token"):
        cached_steps(Subject(Handed(), sequence(1), {"cache": "past"}))
    with pytest.raises(Skipped, match="no argument memory"):
        cached_steps(Subject(Handed(), sequence(), {"cache": "memory"}))
    with pytest.raises(Skipped, match="keeps nothing"):
        cached_steps(Subject(lambda x: x, sequence()))
