"""Attention by hand that sees the future in several ways, and the findings of AS201 on it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding

CAUSAL = {"causal": True}


def found(model: Any, inputs: Any, expect: dict[str, Any] | None = None) -> list[Finding]:
    report = attnscope.check(model.eval(), inputs, expect=expect, select=["AS201"])
    assert not [skipped for skipped in report.rules_skipped if "failed" in skipped.reason]
    return list(report.findings)


def only(model: Any, inputs: Any, expect: dict[str, Any] | None = None) -> Finding:
    (finding,) = found(model, inputs, expect)
    assert (finding.code, finding.severity) == ("AS201", "error")
    return finding


def line(model: Any, inputs: Any) -> int:
    finding = only(model, inputs, CAUSAL)
    assert finding.source is not None
    return finding.source.line


def features(length: int = 9, width: int = 24, batch: int = 2) -> Tensor:
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(0))


class ByHand(nn.Module):
    """Attention by hand; which mask it applies is up to those that inherit from it."""

    def __init__(self, width: int = 24, heads: int = 3) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def hidden(self, scores: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = self.hidden(q @ k.mT / math.sqrt(c // self.heads))
        weights = scores.softmax(-1)  # the softmax
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class NoMask(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        return scores


class Right(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return scores.masked_fill(later, -math.inf)


class OneTooFar(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(2)  # one too far
        return scores.masked_fill(later, -math.inf)


class Compared(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        at = torch.arange(scores.shape[-1])
        seen = at <= at[:, None] + 1  # compared
        return torch.where(seen, scores, -math.inf)


class Weak(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        later = torch.ones(scores.shape[-2:]).triu(1)
        return scores - 5.0 * later  # too weak


class Opened(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        seen = seen | (torch.arange(len(seen))[:, None] == 4)  # opened
        return scores.masked_fill(~seen, torch.finfo(scores.dtype).min)


class Strict(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(0)
        return scores.masked_fill(later, -1e9)


class HidesNothing(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        allowed = torch.ones(scores.shape[-2:])
        return scores.masked_fill(allowed == 0, -math.inf)  # hides nothing


class NearOnBothSides(ByHand):
    def hidden(self, scores: Tensor) -> Tensor:
        at = torch.arange(scores.shape[-1])
        near = (at[:, None] - at).abs() < 3  # near on both sides
        return scores.masked_fill(~near, -math.inf)
