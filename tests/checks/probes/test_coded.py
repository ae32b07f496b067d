"""Single tokens are changed to see where they land in q, k, v, and on the way out."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnscope.checks.probes.coded import Coded, coded
from attnscope.checks.subject.subject import Subject
from tests.checks.small import SelfAttention, noise


def codes(model: Any, inputs: Any, **expect: Any) -> Coded:
    (found,) = coded(Subject(model, inputs, expect))
    return found


def positions(found: Coded, side: Any) -> list[set[int]]:
    """Return the positions of each token of the first sample."""
    own = [each for each in found.landings[side] if each.token[0] == 0]
    return [{int(at) for *_, at in each.entries.nonzero()} for each in own]


class Unsplit(SelfAttention):
    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.heads, x.shape[1], -1)


class LooseMerge(SelfAttention):
    def merge(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


class HeadByHead(SelfAttention):
    def attend(self, x: Tensor) -> Any:
        parts = []
        for q, k, v in zip(*(p.chunk(2, -1) for p in self.qkv(x).chunk(3, -1)), strict=True):
            parts.append(self.weigh(q @ k.mT / math.sqrt(q.shape[-1])) @ v)
        return self.out(self.join(parts))

    def join(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, -1)


def test_each_token_has_its_own_position_of_every_head() -> None:
    found = codes(SelfAttention(), noise(2, 4, 16))
    assert found.sizes["q"] == (2, 4)
    assert found.axes["q"] == (0, 1)
    for side in ("q", "k", "v"):
        assert positions(found, side) == [{0}, {1}, {2}, {3}]
        assert all(bool(each.entries.any(-1)[each.token[0]].all()) for each in found.landings[side])
    assert positions(found, "out") == [{0}, {1}, {2}, {3}]


def test_a_token_that_is_spread_is_seen_at_all_its_positions() -> None:
    found = codes(Unsplit(), noise(2, 5, 16))
    assert positions(found, "q")[0] == {0, 1}


def test_heads_that_go_to_other_tokens_are_seen_on_the_way_out() -> None:
    found = codes(LooseMerge(), noise(2, 4, 16))
    assert positions(found, "q") == [{0}, {1}, {2}, {3}]
    assert positions(found, "out")[0] == {0, 2}


def test_heads_that_a_loop_computes_are_one_attention_on_the_way_out() -> None:
    (found,) = coded(Subject(HeadByHead(), noise(2, 4, 16)))
    out = [each.entries for each in found.landings["out"]]
    assert all(len(entries) == 2 for entries in out)
    assert positions(found, "out") == [{0}, {1}, {2}, {3}]


def test_another_order_of_axes_is_read_as_such() -> None:
    class TimeFirst(SelfAttention):
        def forward(self, x: Tensor) -> Any:
            return self.attend(x.transpose(0, 1)).transpose(0, 1)

    found = codes(TimeFirst(), noise(4, 2, 16), batch_axis=1)
    assert positions(found, "k") == [{0}, {1}, {2}, {3}]


def test_a_long_sequence_is_coded_in_part() -> None:
    found = codes(SelfAttention(), noise(3, 40, 16))
    assert len(found.landings["q"]) == 2 * 6


def test_the_model_is_not_run_again() -> None:
    runs = []
    model = SelfAttention()
    model.register_forward_hook(lambda *_: runs.append(1))
    subject = Subject(model, noise(2, 4, 16))
    assert subject.calls
    count = len(runs)
    coded(subject)
    assert len(runs) == count
