"""Later tokens: what is changed, what counts as moved, and that the model is put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.probes.later_tokens import changed_at, later_tokens
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject


class Sums(nn.Module):
    """Each position gets the sum of those up to itself, or of those from itself on."""

    def __init__(self, *, ahead: bool) -> None:
        super().__init__()
        self.ahead, self.calls = ahead, 0
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        summed = x.flip(1).cumsum(1).flip(1) if self.ahead else x.cumsum(1)
        return summed + 0.0 * self.norm(x.flatten(0, 1)).sum()


def sequence(length: int = 7) -> Tensor:
    return torch.randn(3, length, 4, generator=torch.Generator().manual_seed(0))


def test_it_tells_what_moved_from_what_did_not() -> None:
    assert not later_tokens(Subject(Sums(ahead=False), sequence())).leaks
    probed = later_tokens(Subject(Sums(ahead=True), sequence()))
    assert {leak.mode for leak in probed.leaks} == set(probed.modes)
    assert probed.leaks[0].moved == probed.leaks[0].cut
    assert probed.own > probed.noise


def test_the_model_is_as_before() -> None:
    model = Sums(ahead=True).train()
    statistics = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.random.get_rng_state()
    later_tokens(Subject(model, sequence()))
    assert model.training
    assert model.calls == 0
    assert torch.equal(random, torch.random.get_rng_state())
    for name, value in model.state_dict().items():
        assert torch.equal(value, statistics[name])


def test_inputs_of_one_item_a_token_are_changed_together() -> None:
    def run(states: Tensor, actions: Tensor, other: Tensor) -> Tensor:
        return states + actions + other.mean()

    inputs = {"states": sequence(), "actions": sequence(), "other": torch.zeros(3, 5, 4)}
    subject = Subject(run, inputs)
    stream = subject.roles.main
    assert stream is not None
    where = (torch.arange(7) >= 4).expand(3, 7)
    changed = changed_at(subject, stream, where).values
    for name in ("states", "actions"):
        moved = (changed[name] != inputs[name]).any(-1)
        assert torch.equal(moved, where), name
    assert torch.equal(changed["other"], inputs["other"])


@pytest.mark.parametrize(
    ("run", "word"),
    [(lambda x: x.mean(1), "no axis of tokens"), (lambda x: x, "has 1 token")],
    ids=["pooled", "one token"],
)
def test_where_nothing_can_be_told_it_says_so(run: object, word: str) -> None:
    length = 1 if word.startswith("has") else 7
    with pytest.raises(Skipped, match=word):
        later_tokens(Subject(run, sequence(length)))  # type: ignore[arg-type]
