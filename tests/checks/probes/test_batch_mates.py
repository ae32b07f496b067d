"""Whether one sample moves another: in either direction, and without leaving a trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.probes.batch_mates import batch_mates
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import with_other_sample
from tests.checks.small import SelfAttention, noise


class OverSamples(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        return self.attend(x.transpose(0, 1)).transpose(0, 1)


class OneStream(SelfAttention):
    """All samples in one sequence, in which later ones can't be seen."""

    def forward(self, x: Tensor) -> Any:
        return x.reshape(1, -1, x.shape[-1]).cumsum(1).reshape(x.shape)


def test_sound_attention_leaks_nothing_and_tokens_reach_each_other() -> None:
    found = batch_mates(Subject(SelfAttention(), noise(3, 5, 16)))
    assert not found.leaks
    assert (found.moved, found.others) == (0, 2)
    assert found.own > found.noise > 0
    assert found.token_reach is not None
    assert found.token_reach > found.noise


def test_attention_over_samples_moves_all_others_and_no_other_token() -> None:
    found = batch_mates(Subject(OverSamples(), noise(3, 5, 16)))
    assert found.leaks
    assert (found.moved, found.others, found.token_reach) == (2, 2, 0.0)
    assert found.largest > 1000 * found.noise


class Codebooks(SelfAttention):
    """(samples · codebooks, length): the rows of one sample are summed."""

    def forward(  # type: ignore[override]  # a mask beside the tokens
        self, x: Tensor, attention_mask: Tensor
    ) -> Any:
        rows = x.unflatten(0, (len(attention_mask), -1))
        return self.attend(rows.sum(1)).repeat_interleave(rows.shape[1], 0)


class NextSample(Codebooks):
    def forward(  # type: ignore[override]  # as above
        self, x: Tensor, attention_mask: Tensor
    ) -> Any:
        return super().forward(x.roll(1, 0), attention_mask)


@pytest.mark.parametrize(("kind", "leaks"), [(Codebooks, False), (NextSample, True)])
def test_rows_that_share_a_row_of_the_mask_are_one_sample(
    kind: type[nn.Module], *, leaks: bool
) -> None:
    inputs = {"x": noise(6, 5, 16), "attention_mask": torch.ones(2, 5, dtype=torch.long)}
    found = batch_mates(Subject(kind(), inputs))
    assert (found.leaks, found.others, found.rows) == (leaks, 3, 3)


def test_where_the_last_sample_reaches_nobody_the_first_is_changed() -> None:
    found = batch_mates(Subject(OneStream(), noise(3, 5, 16)))
    assert (found.changed, found.moved) == (0, 2)


def test_it_is_run_once_and_leaves_the_model_as_it_was() -> None:
    model = SelfAttention().train()
    runs: list[int] = []
    model.register_forward_hook(lambda *_: runs.append(1))
    subject = Subject(model, noise(3, 5, 16))
    batch_mates(subject)
    count = len(runs)
    assert batch_mates(subject) is batch_mates(subject)
    assert len(runs) == count
    assert model.training


@pytest.mark.parametrize(
    ("model", "inputs", "said"),
    [
        (SelfAttention(), noise(1, 5, 16), "give inputs with two or more"),
        (nn.Identity(), torch.ones(3, 5).bool(), "no input is a sequence"),
    ],
)
def test_where_it_can_not_be_told(model: nn.Module, inputs: Tensor, said: str) -> None:
    with pytest.raises(Skipped, match=said):
        batch_mates(Subject(model, inputs))


def test_a_memory_that_all_samples_share_is_left_alone() -> None:
    def forward(query: Tensor, memory: Tensor) -> Tensor:
        return query + memory.mean(1, keepdim=True)

    subject = Subject(forward, {"query": noise(3, 5, 16), "memory": noise(1, 4, 16)})
    other = with_other_sample(subject, 2)
    assert torch.equal(other.values["memory"], subject.given.values["memory"])
    assert not batch_mates(subject).leaks
