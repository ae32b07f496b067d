"""Attention by hand, of which a test changes one step, and the findings of one rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.finding import Finding


def found(
    code: str, model: Any, inputs: Any, expect: dict[str, Any] | None = None
) -> list[Finding]:
    report = attnscope.check(model, inputs, expect=expect, select=[code])
    assert not [each for each in report.rules_skipped if "failed" in each.reason]
    return list(report.findings)


def only(code: str, model: Any, inputs: Any, expect: dict[str, Any] | None = None) -> Finding:
    (finding,) = found(code, model, inputs, expect)
    assert finding.code == code
    return finding


def line_of(finding: Finding) -> int:
    assert finding.source is not None
    return finding.source.line


def features(batch: int = 3, length: int = 7, width: int = 24, seed: int = 0) -> Tensor:
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(seed))


class ByHand(nn.Module):
    """Scores, weights and context, each of which a test may compute in another way."""

    def __init__(self, width: int = 24, heads: int = 3, seed: int = 1) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT * q.shape[-1] ** -0.5  # type: ignore[no-any-return]

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def context(self, weights: Tensor, v: Tensor) -> Tensor:
        return weights @ v

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = self.weights(self.scores(q, k))
        return self.out(self.context(weights, v).transpose(1, 2).reshape(b, n, d)), weights

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)[0]


class Returning(ByHand):
    """The same, with its weights."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.attend(x)
