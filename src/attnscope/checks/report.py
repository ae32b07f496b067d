"""What a check returns: findings, which rules ran, which did not and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from attnscope.checks.finding import Finding

__all__ = ["Report", "SkippedRule", "Suppressed"]

SCHEMA = "attnscope.check/1"


@dataclass(frozen=True, slots=True)
class SkippedRule:
    """A rule that did not run, and what would let it.

    failed: a defect of the rule itself; ignored: settings leave it out.
    """

    code: str
    reason: str
    failed: bool = False
    ignored: bool = False

    def to_json(self) -> dict[str, str]:
        """Return the fields that the JSON format carries."""
        return {"code": self.code, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that was silenced: by a comment, by the project's settings or by a baseline."""

    finding: Finding
    by: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields that the JSON format carries."""
        return {**self.finding.to_json(), "by": self.by, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    target: name of what was checked; calls: attention calls of the base run. findings: worst first;
    suppressed: those that were silenced. notes: what was assumed, and what could not be looked
    into. seconds: how long it took.
    """

    target: str
    calls: int
    findings: tuple[Finding, ...] = ()
    rules_run: tuple[str, ...] = ()
    rules_skipped: tuple[SkippedRule, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there is no error and no warning."""
        return not any(finding.counts for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the report as the JSON format has it."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "calls": self.calls,
            "rules_run": list(self.rules_run),
            "rules_skipped": [each.to_json() for each in self.rules_skipped],
            "findings": [each.to_json() for each in self.findings],
            "suppressed": [each.to_json() for each in self.suppressed],
            "notes": list(self.notes),
        }

    def to_sarif(self) -> dict[str, Any]:
        """Return the report as SARIF 2.1.0, for code-scanning services."""
        from attnscope.checks.formats.sarif import sarif

        return sarif(self)

    def __str__(self) -> str:
        """Return the report as plain text of at most 100 columns."""
        from attnscope.checks.formats.text import plain

        return plain(self)
