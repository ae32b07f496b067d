"""Small attentions that tests of the checks are made of."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding
from attnscope.checks.report import Report

WIDTH, HEADS = 16, 2


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class SelfAttention(nn.Module):
    """Sound attention over (batch, length, width), of which tests replace parts."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x: Tensor) -> Any:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def merge(self, context: Tensor) -> Tensor:
        return context.transpose(1, 2).flatten(2)

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        weights = self.weigh(q @ k.mT / math.sqrt(q.shape[-1]))
        return self.out(self.merge(weights @ v))

    def forward(self, x: Tensor) -> Any:
        return self.attend(x)


def checked(model: Any, inputs: Any, *select: str, **expect: Any) -> Report:
    """Check with some rules, none of which may fail."""
    report = attnscope.check(model, inputs, select=select, expect=expect)
    assert not [each for each in report.rules_skipped if each.failed]
    return report


def the_finding(report: Report) -> Finding:
    assert len(report.findings) == 1
    return report.findings[0]


def line_of(finding: Finding) -> str:
    """Return the code at fault."""
    assert finding.source is not None
    return finding.source.code
