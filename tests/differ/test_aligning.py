"""Calls that are the same attention meet: in order, joined from loops, or by their results."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnscope.differ.sides.aligning import align
from attnscope.differ.sides.side import Side, observe
from attnscope.differ.sides.subject import Subject
from attnscope.differ.walk.judging import Tolerance

TOLERANCE = Tolerance.of({torch.float32})


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


class Model(nn.Module):
    """Two attentions from one input, by a function of (q, k, v)."""

    def __init__(self, function: Any, *, turned: bool = False, times: int = 2) -> None:
        super().__init__()
        self.function, self.turned, self.times = function, turned, times
        generator = torch.Generator().manual_seed(0)
        self.weights = nn.Parameter(torch.randn(2, 3, 12, 12, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        order = range(self.times)
        total = torch.zeros_like(x)
        for at in reversed(order) if self.turned else order:
            q, k, v = (
                (x @ weight).view(batch, length, 3, 4).transpose(1, 2)
                for weight in self.weights[at]
            )
            total = total + self.function(q, k, v).transpose(1, 2).reshape(batch, length, width)
        return total


def by_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = [attend(q[:, [h]], k[:, [h]], v[:, [h]]) for h in range(q.shape[1])]
    return torch.cat(heads, 1)


def by_sample(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.cat([attend(q[[b]], k[[b]], v[[b]]) for b in range(q.shape[0])])


def by_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.cat([attend(block, k, v) for block in q.split(2, 2)], 2)


def seen(model: nn.Module) -> Side:
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))
    return observe(Subject("model", model), (x,), {}, seed=0)


def test_calls_of_one_order_meet_in_order() -> None:
    found = align(seen(Model(attend)), seen(Model(attend)), TOLERANCE)
    assert len(found.pairs) == 2
    assert not found.reordered


def test_loops_over_heads_samples_and_blocks_of_queries_are_joined() -> None:
    whole = seen(Model(attend))
    for function in (by_head, by_sample, by_query):
        for ours, theirs in ((seen(Model(function)), whole), (whole, seen(Model(function)))):
            found = align(ours, theirs, TOLERANCE)
            assert len(found.pairs) == 2
            assert not found.missing
            assert not found.extra
            for pair in found.pairs:
                for name in ("q", "k", "v", "context"):
                    mine, other = pair.candidate.value(name), pair.reference.value(name)
                    assert torch.allclose(mine, other, atol=1e-6)
                q, k, v = (pair.reference.value(name) for name in ("q", "k", "v"))
                made = pair.candidate.rerun("weights", q, k, v)
                assert torch.allclose(made, pair.reference.rerun("weights", q, k, v))


def test_calls_in_another_order_meet_by_their_results() -> None:
    found = align(seen(Model(attend, turned=True)), seen(Model(attend)), TOLERANCE)
    assert found.reordered
    for pair in found.pairs:
        assert torch.allclose(pair.candidate.value("context"), pair.reference.value("context"))


def test_calls_without_a_partner_are_named() -> None:
    two, one = seen(Model(attend)), seen(Model(attend, times=1))
    assert len(align(two, one, TOLERANCE).extra) == 1
    assert len(align(one, two, TOLERANCE).missing) == 1
