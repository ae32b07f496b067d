"""Padding that nobody reads does not count; padding that sees something does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnscope.differ.walk.relevance import Relevance

KEEP = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])


def causal(keep: Tensor) -> Tensor:
    visible = torch.ones(4, 4).tril().bool() & keep.bool()[:, None, None]
    return torch.zeros(2, 1, 4, 4).masked_fill(~visible, float("-inf"))


def test_left_padding_under_a_causal_mask_is_blind_and_does_not_count() -> None:
    relevance = Relevance({"attention_mask": KEEP})
    relevance.see([causal(KEEP)])
    rows = relevance.rows("q", (2, 3, 4, 8))
    assert rows is not None
    assert rows[:, 0, :, 0].tolist() == KEEP.bool().tolist()
    assert relevance.rows("model", (2, 4, 9)) is not None
    assert relevance.rows("model", (2, 5, 9)) is None


def test_right_padding_sees_the_tokens_before_it_and_counts() -> None:
    keep = KEEP.flip(1)
    relevance = Relevance({"attention_mask": keep})
    relevance.see([causal(keep)])
    assert relevance.rows("output", (2, 4, 8)) is None
    keys = relevance.rows("k", (2, 3, 4, 8))
    assert keys is not None
    assert keys[:, 0, :, 0].tolist() == keep.bool().tolist()


@pytest.mark.parametrize(
    ("inputs", "padding"),
    [
        ({"key_padding_mask": KEEP == 0}, None),
        ({"mine": KEEP}, "mine keep"),
        ({"mine": KEEP == 0}, "mine drop"),
        ({"lengths": torch.tensor([4, 2])}, "lengths lengths"),
        ({"ids": torch.tensor([[9, 0, 5, 5], [1, 2, 3, 4]])}, "ids pad=0"),
    ],
)
def test_masks_are_read_in_every_convention(inputs: dict[str, Tensor], padding: str | None) -> None:
    assert Relevance(inputs, padding).rows("v", (2, 1, 4, 8)) is not None


def test_a_mask_that_keeps_nothing_of_a_sample_or_hides_nothing_says_nothing() -> None:
    for keep in (torch.zeros(2, 4, dtype=torch.int64), torch.ones(2, 4, dtype=torch.int64)):
        assert Relevance({"attention_mask": keep}).rows("k", (2, 1, 4, 8)) is None


def test_the_cotangent_is_zero_where_rows_do_not_count() -> None:
    relevance = Relevance({"attention_mask": KEEP})
    relevance.see([causal(KEEP)])
    weights = relevance.cotangent(torch.zeros(2, 4, 3))
    assert weights[0, :2].eq(0).all()
    assert weights[0, 2:].eq(1).all()
    assert weights[1].eq(1).all()
