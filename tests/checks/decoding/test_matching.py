"""A value of one step and of the full pass: equal at the same tokens, wherever the axis lies."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnscope.checks.decoding.matching import Stretch

STRETCH = Stretch(start=4, stop=6, length=9, batch=2)


def full(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


KEYS = full(2, 3, 9, 5)
SCORES = full(2, 3, 9, 9)
MERGED = full(2, 9, 5)


@pytest.mark.parametrize(
    ("whole", "step"),
    [
        (KEYS, KEYS[:, :, 4:6]),
        (KEYS, KEYS[:, :, :6]),
        (SCORES, SCORES[:, :, 4:6, :6]),
        (MERGED.flatten(0, 1), MERGED[:, 4:6].flatten(0, 1)),
        (MERGED.transpose(0, 1).flatten(0, 1), MERGED[:, 4:6].transpose(0, 1).flatten(0, 1)),
        (torch.arange(9), torch.arange(4, 6)),
        (full(3, 5), full(3, 5)),
    ],
    ids=["new", "all", "scores", "samples outside", "tokens outside", "positions", "constant"],
)
def test_the_same_tokens_agree(whole: Tensor, step: Tensor) -> None:
    assert STRETCH.agree(whole, step) is True
    other = step.clone()
    other.view(-1)[-1] += 1
    assert STRETCH.agree(whole, other) is False


def test_memory_of_a_fixed_size_agrees_as_far_as_it_is_filled() -> None:
    whole = torch.zeros(2, 16, 5)
    whole[:, :9] = full(2, 9, 5)
    step = whole.clone()
    step[:, 6:] = 0.0
    assert STRETCH.agree(whole, step) is True
    step[:, 3] = 0.0
    assert STRETCH.agree(whole, step) is False


def test_too_few_tokens_differ_and_other_sizes_say_nothing() -> None:
    assert STRETCH.agree(KEYS, KEYS[:, :, :4]) is False
    assert STRETCH.agree(KEYS, full(2, 3, 9, 4)) is None
    assert STRETCH.agree(KEYS, KEYS[0]) is None


def test_rounding_agrees_and_fills_are_equal() -> None:
    whole = KEYS.clone()
    whole[..., 0] = -torch.inf
    step = whole[:, :, 4:6] * (1 + 1e-7)
    assert STRETCH.agree(whole, step) is True
