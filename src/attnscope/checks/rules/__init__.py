"""The table of rules: one file a rule, named after the defect; none imports torch when it is read."""

from __future__ import annotations

from attnscope.checks.rule import Rule
from attnscope.checks.rules import (
    batch_attention,
    head_scramble,
    kernel_layout,
)

__all__ = ["RULES", "rule_of"]

_MODULES = (
    batch_attention,  # AS102
    head_scramble,  # AS103
    kernel_layout,  # AS106
)

RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)
"""All rules, by code."""


def rule_of(code: str) -> Rule | None:
    """Return the rule of a code or name, None where there is none."""
    wanted = code.strip()
    return next((r for r in RULES if wanted.upper() == r.code or wanted.lower() == r.name), None)
