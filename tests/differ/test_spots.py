from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.evidence import Spot
from attnscope.checks.subject.subject import Subject
from tests.checks.small import SelfAttention, noise


def test_a_stage_is_looked_for_when_it_is_asked_for() -> None:
    (located,) = Subject(SelfAttention(), noise(2, 5, 16)).base.located
    asked: list[str] = []
    evidence = located.call.evidence
    spot_of = evidence.spot

    def spot(name: str) -> Spot | None:
        asked.append(name)
        return spot_of(name)

    evidence.spot = spot  # type: ignore[method-assign]
    assert len(located.spots["q"]) == 1
    assert "context" in located.spots
    assert located.spots.get("q") is located.spots["q"]
    assert asked == ["q", "context"]
    assert list(located.spots) == ["q", "k", "v", "scores", "weights", "context"]
    assert sorted(asked) == sorted(set(asked))


def test_a_stage_that_does_not_lie_on_the_tape_is_not_there() -> None:
    class Fused(SelfAttention):
        def attend(self, x: Tensor) -> Tensor:
            q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
            return self.merge(torch.nn.functional.scaled_dot_product_attention(q, k, v))

    (located,) = Subject(Fused(), noise(2, 5, 16)).base.located
    assert list(located.spots) == ["q", "k", "v", "context"]
    assert "weights" not in located.spots
    assert "output" not in located.spots
