from __future__ import annotations

import torch

from attnscope.calls.broadcasting import collapse, rows_of


def test_axes_that_repeat_become_one() -> None:
    values = torch.randn(1, 3, 1, 4).expand(2, 3, 5, 4)
    assert collapse(values).shape == (1, 3, 1, 4)
    assert collapse(values.contiguous()).shape == (1, 3, 1, 4)
    assert torch.equal(collapse(values.contiguous()).expand_as(values), values)
    assert collapse(values, axes=(0,)).shape == (1, 3, 5, 4)


def test_entries_that_do_not_count_do_not_hinder() -> None:
    values = torch.full((1, 2, 3, 3), 0.5)
    known = torch.ones(3, 3, dtype=torch.bool).tril()
    values = values.masked_fill(~known, -7.0)
    assert collapse(values).shape == (1, 1, 3, 3)
    assert collapse(values, known).tolist() == [[[[0.5]]]]


def test_rounded_entries_are_alike_and_the_surest_stands_for_them() -> None:
    values = torch.tensor([1.0, 1.001, 0.999, 1.0005]).view(1, 1, 1, 4)
    slack = torch.tensor([0.01, 0.01, 0.01, 0.0]).view(1, 1, 1, 4)
    assert collapse(values, slack=slack).item() == values[..., 3].item()
    assert collapse(values, slack=slack / 100).shape == (1, 1, 1, 4)


def test_rows_of_what_has_no_queries_are_the_thing_itself() -> None:
    assert rows_of(torch.zeros(1, 3, 1, 4), 2, 4).shape == (1, 3, 1, 4)
    assert rows_of(torch.zeros(1, 3, 6, 4), 2, 4).shape == (1, 3, 2, 4)
    assert rows_of(torch.zeros(()), 2, 4).shape == ()
