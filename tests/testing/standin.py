"""An engine that returns what a test tells it, so that batteries are tested apart from rules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from attnscope.checks.finding import Finding
from attnscope.checks.report import Report
from attnscope.checks.rule import Rule
from attnscope.testing import RuleTest, battery
from tests.checks.rules.by_hand import BY_HAND


def found(rule: Rule, message: str = "moved by 0.5", **more: Any) -> Finding:
    """Return a finding of a rule."""
    return rule.found(message, {"moved": 0.5}, **more)


class Engine:
    """Stands in for the engine: returns one report, and remembers what it was asked."""

    def __init__(self) -> None:
        self.report = Report("net", 1, (), tuple(rule.code for rule in BY_HAND))
        self.error: Exception | None = None
        self.asked: list[SimpleNamespace] = []

    def check(self, model: Any, inputs: Any = None, **options: Any) -> Report:
        self.asked.append(SimpleNamespace(model=model, inputs=inputs, **options))
        if self.error is not None:
            raise self.error
        return self.report

    def reports(self, *findings: Finding, **more: Any) -> None:
        """Return these findings from now on."""
        ran = tuple(rule.code for rule in BY_HAND)
        self.report = Report("net", 1, findings, **{"rules_run": ran, **more})


def net() -> nn.Module:
    return nn.Linear(4, 4)


X = torch.zeros(2, 3, 4)


def items(target: Any = net, **options: Any) -> dict[str, RuleTest]:
    """Return the items of a battery by code."""
    mark = battery(target, **{"inputs": X, **options})
    return {item.values[0].rule.code: item.values[0] for item in mark.args[1]}
