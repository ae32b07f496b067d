"""The probes behind the rules of positions, dropout, gradients and parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.entry import check
from attnscope.checks.probes.alike_tokens import alike_tokens
from attnscope.checks.probes.backward import backward
from attnscope.checks.probes.left_padding import left_padding
from attnscope.checks.probes.repeated import repeated
from attnscope.checks.probes.toggled_parameters import moved_by_parameters
from attnscope.checks.probes.train_mode import train_mode
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject
from tests.checks.small import SelfAttention, noise


class Stepping(SelfAttention):
    """Attention that counts its runs, and keeps running statistics while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = 0
        self.norm = nn.BatchNorm1d(16)
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Any:
        self.runs += 1
        return self.attend(self.norm(x.mT).mT)


def stepping() -> Stepping:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Stepping().train()


PROBES: dict[str, Callable[[Subject], object]] = {
    "alike tokens": alike_tokens,
    "backward": backward,
    "repeated": repeated,
    "train mode": train_mode,
    "toggled": lambda subject: moved_by_parameters(subject, ["idle", "qkv.weight"]),
}


@pytest.mark.parametrize("name", PROBES)
def test_the_model_is_as_before(name: str) -> None:
    model = stepping()
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    PROBES[name](Subject(model, noise(2, 5, 16)))
    after = model.state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert model.training
    assert model.runs == 0
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(random, torch.get_rng_state())


def test_repeated_runs_tell_draws_from_other_differences() -> None:
    class Dropping(SelfAttention):
        def weigh(self, scores: Tensor) -> Tensor:
            return nn.functional.dropout(scores.softmax(-1), 0.5)

    found = repeated(Subject(Dropping(), noise(2, 5, 16)))
    assert found.again == 0.0
    assert found.largest > 0.0
    assert 0.0 < found.share <= 1.0
    assert repeated(Subject(SelfAttention(), noise(2, 5, 16))).largest == 0.0


def test_idle_parameters_move_nothing_and_busy_ones_do() -> None:
    subject = Subject(stepping(), noise(2, 5, 16))
    assert moved_by_parameters(subject, ["idle"]) == 0.0
    assert moved_by_parameters(subject, ["idle", "qkv.weight"]) > 0.0


def test_a_backward_reaches_q_k_v_and_the_parameters_that_take_part() -> None:
    found = backward(Subject(stepping(), noise(2, 5, 16)))
    assert found.parameters["idle"] is None
    assert found.parameters["qkv.weight"] is not None
    assert len(found.values) == 3
    assert all(each is not None for each in found.values.values())


@pytest.mark.parametrize("how", ["frozen", "no_grad"])
def test_a_backward_of_what_has_no_gradient_is_skipped(how: str) -> None:
    model = SelfAttention()
    if how == "frozen":
        for parameter in model.parameters():
            parameter.requires_grad = False
    else:
        model.forward = torch.no_grad()(model.forward)  # type: ignore[method-assign]
    with pytest.raises(Skipped):
        backward(Subject(model, noise(2, 5, 16)))


def test_train_mode_needs_a_module() -> None:
    with pytest.raises(Skipped, match="no train mode"):
        train_mode(Subject(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, (noise(1, 2, 4, 8),) * 3))


def test_alike_tokens_are_told_apart_by_a_table_and_by_a_bias() -> None:
    class Tabled(SelfAttention):
        def forward(self, x: Tensor) -> Any:
            return self.attend(x + torch.arange(x.shape[1])[:, None])

    class Biased(SelfAttention):
        def weigh(self, scores: Tensor) -> Tensor:
            return (scores + torch.arange(scores.shape[-1])).softmax(-1)

    class Windowed(SelfAttention):
        def weigh(self, scores: Tensor) -> Tensor:
            near = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(1).triu(-1)
            return scores.masked_fill(~near, -torch.inf).softmax(-1)

    x = noise(2, 6, 16)
    plain = alike_tokens(Subject(SelfAttention(), x))
    assert plain.blind
    assert plain.shifts[0] < 1e-6
    assert alike_tokens(Subject(Tabled(), x)).by_values
    biased = alike_tokens(Subject(Biased(), x))
    assert biased.by_weights
    assert biased.spread > 0.5
    assert alike_tokens(Subject(Windowed(), x)).by_mask


def test_left_padding_needs_a_sample_that_is_padded_there() -> None:
    with pytest.raises(Skipped, match="nothing says"):
        left_padding(Subject(SelfAttention(), noise(2, 5, 16)))


def test_a_backward_from_before_the_check_still_goes_through() -> None:
    model, x = stepping(), noise(2, 5, 16).requires_grad_()
    pending = model(x).sum()
    held = [*model.parameters(), *model.buffers(), x]
    before = [each._version for each in held]
    check(model, x, select=["AS902", "AS903"])
    assert [each._version for each in held] == before
    pending.backward()
    assert x.grad is not None
