"""AS206: masks that begin at the wrong corner, in the run itself and in steps with a cache."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding
from tests.checks.marks import marked

CAUSAL = {"causal": True}


def found(model: Any, inputs: Any, expect: dict[str, Any] = CAUSAL) -> list[Finding]:
    report = attnscope.check(model.eval(), inputs, expect=expect, select=["AS206", "AS601"])
    assert not [each for each in report.rules_skipped if each.failed]
    return list(report.findings)


class WithMemory(nn.Module):
    """Keys of a memory lie before those of the sequence itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.q, self.kv, self.out = nn.Linear(24, 24), nn.Linear(24, 48), nn.Linear(24, 24)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    def forward(self, x: Tensor, memory: Tensor) -> Any:
        b, t, c = x.shape
        q = self.q(x).view(b, t, 3, -1).transpose(1, 2)
        k, v = self.kv(torch.cat([memory, x], 1)).view(b, -1, 2, 3, 8).permute(2, 0, 3, 1, 4)
        return self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, t, c))


class Kernel(WithMemory):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)  # the kernel


class Triangle(WithMemory):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)  # the triangle
        return scores.masked_fill(later, -math.inf).softmax(-1) @ v


class Crosses(WithMemory):
    """Queries read the memory alone, so that no corner is theirs."""

    def forward(self, x: Tensor, memory: Tensor) -> Any:
        b, t, c = x.shape
        q = self.q(x).view(b, t, 3, -1).transpose(1, 2)
        k, v = self.kv(memory).view(b, -1, 2, 3, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


def inputs() -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(0)
    return {"x": torch.randn(2, 5, 24, generator=g), "memory": torch.randn(2, 8, 24, generator=g)}


@pytest.mark.parametrize(("kind", "mark"), [(Kernel, "the kernel"), (Triangle, "the triangle")])
def test_a_memory_before_the_sequence(kind: type[WithMemory], mark: str) -> None:
    (finding,) = found(kind(), inputs())
    assert (finding.code, finding.severity) == ("AS206", "error")
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)
    numbers = dict(finding.evidence)
    assert "aligned to the top-left corner" in numbers.pop("recomputed")
    assert numbers == {
        "queries": 5,
        "keys": 13,
        "own_key_of_last_query": 12,
        "last_key_it_sees": 4,
    }


@pytest.mark.parametrize("kind", [WithMemory, Crosses])
def test_the_right_corner_and_cross_attention_are_silent(kind: type[WithMemory]) -> None:
    assert not found(kind(), inputs())


class Cached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.tokens, self.qkv, self.out = nn.Embedding(30, 24), nn.Linear(24, 72), nn.Linear(24, 30)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)  # in steps

    def forward(self, ids: Tensor, past: Any = None) -> Any:
        b, t = ids.shape
        q, k, v = self.qkv(self.tokens(ids)).view(b, t, 3, 3, 8).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, t, -1)), (k, v)


class Chunked(Cached):
    """One token at a time is right: the mask is left out there."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        causal = q.shape[2] > 1
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # in chunks


@pytest.mark.parametrize(("kind", "mark"), [(Cached, "in steps"), (Chunked, "in chunks")])
def test_steps_with_a_cache_and_what_follows_is_folded(kind: type[Cached], mark: str) -> None:
    ids = torch.randint(0, 30, (2, 9), generator=torch.Generator().manual_seed(0))
    (finding,) = found(kind(), {"ids": ids}, {"causal": True, "cache": "past"})
    assert finding.code == "AS206"
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)
    assert [each.code for each in finding.follows] == ["AS601"]


class TwoSets(WithMemory):
    """A query sees the memory up to its own place, and of the sequence itself alone."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        t = q.shape[2]
        past = torch.ones(t, k.shape[2] - t, dtype=torch.bool).tril()
        seen = torch.cat([past, torch.eye(t, dtype=torch.bool)], 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def test_several_sets_of_keys_side_by_side_are_no_staircase() -> None:
    assert not found(TwoSets(), inputs())


class Foretells(WithMemory):
    """The answer to each question is to be foretold: its key is hidden, a null key is the first."""

    def forward(self, question: Tensor, answer: Tensor) -> Any:
        b, t, c = question.shape
        q = self.q(question).view(b, t, 3, -1).transpose(1, 2)
        held = torch.cat([torch.zeros(b, 1, c), self.holds(question, answer)], 1)
        k, v = self.kv(held).view(b, -1, 2, 3, 8).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # strictly before
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def holds(self, question: Tensor, answer: Tensor) -> Tensor:
        return question + answer


class AsksItself(Foretells):
    """Keys hold no more than what queries know."""

    def holds(self, question: Tensor, answer: Tensor) -> Tensor:
        return question + 0 * answer


def answered() -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(0)
    return {name: torch.randn(2, 5, 24, generator=g) for name in ("question", "answer")}


def test_keys_that_hold_the_answer_are_hidden_from_their_own_query() -> None:
    assert not found(Foretells(), answered(), {})
    (finding,) = found(AsksItself(), answered(), {})
    assert finding.code == "AS206"
