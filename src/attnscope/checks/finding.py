"""One fault: code, severity, place, evidence, why it matters, how to mend it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:  # so that rules can be listed without torch
    from attnscope.calls.source import Source

__all__ = ["SEVERITIES", "Evidence", "Finding", "Severity"]

Severity: TypeAlias = Literal["error", "warning", "note"]
Evidence: TypeAlias = Mapping[str, Any]
"""Names with numbers, texts, or lists of such: what was changed, what moved, beside which noise."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""From the worst down."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a subject.

    code, name: those of the rule; module: dotted path of the module at fault ("" for the model
    itself); call: index of the attention call in the base run, None where it is about no one call;
    source: the operation at fault, in the author's own code where there is such a line.
    message: one sentence with the numbers that prove it. fix: what to write instead.
    also: further places of the same fault (other layers); follows: findings that have this one as
    their cause and are folded under it.
    """

    code: str
    name: str
    severity: Severity
    message: str
    evidence: Evidence
    fix: str
    source: Source | None = None
    module: str = ""
    call: int | None = None
    also: tuple[str, ...] = ()
    follows: tuple[Finding, ...] = field(default=())

    @property
    def counts(self) -> bool:
        """Whether it makes a check fail: errors and warnings do, notes don't."""
        return self.severity != "note"

    def with_follower(self, finding: Finding) -> Finding:
        """Return this finding with another one folded under it."""
        return replace(self, follows=(*self.follows, finding))

    def with_place(self, place: str) -> Finding:
        """Return this finding with one more module that has the same fault."""
        return replace(self, also=(*self.also, place))

    def to_json(self) -> dict[str, Any]:
        """Return the fields that the JSON format carries."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "module": self.module,
            "call": self.call,
            "source": self.source.to_json() if self.source is not None else None,
            "message": self.message,
            "evidence": dict(self.evidence),
            "fix": self.fix,
            "also": list(self.also),
            "follows": [each.to_json() for each in self.follows],
        }
