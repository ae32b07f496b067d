from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attnscope.checks.masking.seen import Seen, seen_by
from attnscope.checks.subject.subject import Subject

KEEP = torch.ones(6, 6, dtype=torch.bool).tril()
FUTURE = ~KEEP


def seen(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Seen:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 3, 6, 4, generator=generator) for _ in range(3))
    subject = Subject(attend, (q, k, v))
    return seen_by(subject, subject.calls[0])


def in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    scores.masked_fill_(FUTURE, -1e9)
    return scores.softmax(-1) @ v


def by_index(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    scores[FUTURE.expand_as(scores)] = float("-inf")
    return scores.softmax(-1) @ v


def folded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (each.flatten(0, 1) for each in (q, k, v))
    bias = torch.zeros(6, 6).masked_fill(FUTURE, float("-inf"))
    return torch.baddbmm(bias, q, k.mT).softmax(-1).bmm(v).view(2, 3, 6, 4)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "fill": lambda q, k, v: (q @ k.mT).masked_fill(FUTURE, -1e9).softmax(-1) @ v,
    "fill in place": in_place,
    "by index": by_index,
    "where": lambda q, k, v: torch.where(KEEP, q @ k.mT, -1e9).softmax(-1) @ v,
    "where, turned": lambda q, k, v: torch.where(FUTURE, -1e9, q @ k.mT).softmax(-1) @ v,
    "added": lambda q, k, v: (q @ k.mT + FUTURE * -1e9).softmax(-1) @ v,
    "subtracted": lambda q, k, v: (q @ k.mT - FUTURE * 1e9).softmax(-1) @ v,
    "baddbmm": folded,
    "kernel, boolean": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=KEEP),
    "kernel, bias": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.zeros(6, 6).masked_fill(FUTURE, float("-inf"))
    ),
    "kernel, flag": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_hidden_is_read_and_hidden_well(way: str) -> None:
    found = seen(WAYS[way])
    assert found.hidden is not None
    assert torch.equal(found.hidden.flatten(0, 1), FUTURE.expand(6, 6, 6))
    assert found.effective is not None
    assert torch.equal(found.effective, found.hidden)
    assert found.weights is not None
    assert found.weights.dtype == torch.float64
    assert found.over_keys


def test_a_weak_fill_hides_in_name_only() -> None:
    found = seen(lambda q, k, v: (q @ k.mT).masked_fill(FUTURE, -1.0).softmax(-1) @ v)
    assert found.hidden is not None
    assert found.effective is not None
    assert int(found.hidden.sum()) == 2 * 3 * 15
    assert not bool(found.effective.any())


def test_a_fill_of_the_wrong_sign_hides_the_rest() -> None:
    found = seen(lambda q, k, v: (q @ k.mT).masked_fill(FUTURE, 1e9).softmax(-1) @ v)
    assert found.hidden is not None
    last = torch.ones(6, 6, dtype=torch.bool)
    last[-1] = False  # its row has nothing in the future, so that nothing wins
    assert torch.equal(found.hidden, (KEEP & last).expand(2, 3, 6, 6))


@pytest.mark.parametrize(
    "bias",
    [
        -0.5 * (torch.arange(6)[:, None] - torch.arange(6)).abs(),
        torch.randn(6, 6, generator=torch.Generator().manual_seed(0)),
        torch.zeros(6, 6),
    ],
    ids=["slopes", "numbers", "nothing"],
)
def test_a_bias_that_is_no_mask_hides_nothing(bias: Tensor) -> None:
    found = seen(lambda q, k, v: (q @ k.mT + bias).softmax(-1) @ v)
    assert found.hides == []
    assert found.hidden is not None
    assert not bool(found.hidden.any())


def test_weights_that_are_turned_are_known() -> None:
    assert seen(lambda q, k, v: (q @ k.mT).softmax(-2).mT @ v).turned
    assert not seen(in_place).turned


def test_a_softmax_over_queries_is_none_over_keys() -> None:
    assert not seen(lambda q, k, v: (q @ k.mT).softmax(-2) @ v).over_keys
