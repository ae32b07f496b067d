"""Rules, findings and reports made by hand, so that no test of a drawing needs a rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnscope.calls.source import Source
from attnscope.checks.finding import Finding, Severity
from attnscope.checks.report import Report, SkippedRule
from attnscope.checks.rule import Rule


def no_finding(_subject: object) -> Iterator[Finding]:
    return iter(())


def rule(code: str, name: str, severity: Severity, **given: Any) -> Rule:
    usual: dict[str, Any] = {
        "what": f"What {name} is, e.g. this. And more of it.",
        "why": f"Why {name} matters. And more of that.",
        "fix": "Write it otherwise.",
        "proof": "A number moves.",
        "bad": "model = 1\n",
        "good": "model = 2\n",
        "check": no_finding,
    }
    return Rule(code=code, name=name, severity=severity, **usual | given)


RULES = (
    rule("AS102", "batch-attention", "error"),
    rule("AS201", "future-leak", "error", limits="It can't see into scripts.",
         sources=("https://example.org/paper",)),
    rule("AS202", "padding-leak", "error"),
    rule("AS203", "empty-row", "warning"),
    rule("AS401", "dead-head", "note"),
    rule("AS404", "sink-head", "note"),
)  # fmt: skip

MODEL = """\
import torch

class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        scores = q @ k.mT
        weights = scores.softmax(-1)
        return weights @ v
"""
LINE = 6


def source(file: str | Path = "model.py", line: int = LINE, **given: Any) -> Source:
    usual = {"function": "Attention.forward", "code": "weights = scores.softmax(-1)"}
    return Source(str(file), line, **usual | given)


def finding(code: str = "AS201", **given: Any) -> Finding:
    made = next(each for each in RULES if each.code == code)
    usual: dict[str, Any] = {
        "name": made.name,
        "severity": made.severity,
        "message": "token 3 moves by 0.41 when token 7 changes, rounding explains 1e-07",
        "evidence": {"largest_change": 0.41, "changed": [7, 8, 9]},
        "fix": "pass is_causal=True",
        "source": source(),
        "module": "layers.0.attention",
        "call": 0,
    }
    return Finding(code=code, **usual | given)


def report(*findings: Finding, **given: Any) -> Report:
    usual: dict[str, Any] = {
        "target": "model.py",
        "calls": 6,
        "rules_run": ("AS102", "AS201", "AS202", "AS203", "AS401"),
        "rules_skipped": (SkippedRule("AS404", "no row is long enough"),),
    }
    return Report(findings=findings, **usual | given)
