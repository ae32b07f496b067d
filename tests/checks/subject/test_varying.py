"""Other inputs of the same kind: the chosen tokens are others, all else is as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import alone, along, other_tokens, vocabulary
from tests.checks.small import SelfAttention, noise

WHERE = torch.tensor([[False, True, False], [False, False, True]])


class Embedded(SelfAttention):
    def __init__(self, count: int = 11) -> None:
        super().__init__()
        self.embedding = nn.Embedding(count, 16, padding_idx=0)

    def forward(self, input_ids: Tensor) -> Any:
        return self.attend(self.embedding(input_ids))


def test_ids_become_others_of_the_vocabulary_and_never_padding() -> None:
    ids = torch.tensor([[1, 2, 3], [4, 5, 0]])
    subject = Subject(Embedded(), ids)
    main = subject.roles.main
    assert main is not None
    assert vocabulary(subject, main) == 11
    for seed in range(20):
        changed = other_tokens(subject, main, WHERE, seed=seed).values["input_ids"]
        assert torch.equal(changed != ids, WHERE)
        assert bool((changed[WHERE] != 0).all())


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_features_change_where_they_should_in_either_order(batch_axis: int) -> None:
    x = noise(2, 3, 16) if batch_axis == 0 else noise(3, 2, 16)
    subject = Subject(SelfAttention(), x, {"batch_axis": batch_axis})
    main = subject.roles.main
    assert main is not None
    changed = other_tokens(subject, main, WHERE).values["x"]
    moved = (changed != x).all(-1)
    assert torch.equal(moved if batch_axis == 0 else moved.mT, WHERE)
    assert torch.equal((changed == x).all(-1), ~moved)


def test_the_random_state_is_not_drawn_from() -> None:
    subject = Subject(SelfAttention(), noise(2, 3, 16))
    main, before = subject.roles.main, torch.get_rng_state()
    assert main is not None
    other_tokens(subject, main, WHERE)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_vocabulary_of_one_has_no_other_token() -> None:
    subject = Subject(Embedded(1), torch.zeros(2, 3, dtype=torch.long))
    main = subject.roles.main
    assert main is not None
    with pytest.raises(Skipped, match="no other token ids"):
        other_tokens(subject, main, WHERE)


def test_one_sample_alone_takes_its_rows_of_everything() -> None:
    def forward(x: Tensor, attention_mask: Tensor, scale: Tensor) -> Tensor:
        del attention_mask
        return x * scale

    given = {"x": noise(2, 3, 16), "attention_mask": torch.ones(2, 3), "scale": torch.ones(7)}
    subject = Subject(forward, given)
    one = alone(subject, 1).values
    assert torch.equal(one["x"], given["x"][1:])
    assert one["attention_mask"].shape == (1, 3)
    assert one["scale"] is given["scale"]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((2, 3, 16), (0, 1)), ((3, 2, 16), (1, 0)), ((2, 16), (0, None)), ((5,), (None, None))],
)
def test_the_axes_of_an_output(shape: tuple[int, ...], axes: tuple[int | None, int | None]) -> None:
    subject = Subject(SelfAttention(), noise(2, 3, 16))
    assert along(subject, noise(*shape)) == axes
