"""A rule: one object from which findings, pages, `explain`, SARIF and the battery of tests come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from attnscope.checks.finding import Evidence, Finding, Severity

if TYPE_CHECKING:  # so that rules can be listed without torch
    from attnscope.calls.call import Call
    from attnscope.calls.source import Source
    from attnscope.checks.subject.subject import Subject

__all__ = ["Check", "Rule", "Skipped"]

Check: TypeAlias = "Callable[[Subject], Iterator[Finding]]"


class Skipped(Exception):  # noqa: N818  no error: a rule says that it can't be run, and why
    """Raised by a rule or a probe that a subject can't be put to.

    reason: what is missing, and how to declare or give it, in one sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of fault.

    code, name: the name is the defect. severity: the usual one; a finding may have a milder one.
    what: the defect, one paragraph. why: what it does to a model. fix: what to write instead.
    proof: how it is proved, with the threshold and where that comes from. limits: what it can't
    tell. sources: addresses of papers and public threads. bad, good: small programs that define
    `model` (and `inputs`, `expect`), on which it fires and stays silent.
    check: finds it. explains: codes of what usually follows from it, folded under it.
    on_crash: whether it also explains a forward that raised. as_it_starts: whether it judges how a
    model is initialised and learns: gates that are still shut stay so (see `opening`).
    """

    code: str
    name: str
    severity: Severity
    what: str
    why: str
    fix: str
    proof: str
    bad: str
    good: str
    check: Check
    limits: str = ""
    sources: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    on_crash: bool = False
    as_it_starts: bool = False

    def found(
        self,
        message: str,
        evidence: Evidence,
        *,
        source: Source | None = None,
        call: Call | None = None,
        module: str | None = None,
        severity: Severity | None = None,
        fix: str | None = None,
    ) -> Finding:
        """Return a finding of this rule.

        source: the operation at fault; None: the line of `call`. module: None: that of `call`.
        severity: milder than usual where the evidence is; fix: more exact than the rule's.
        """
        place = source if source is not None else call.source if call is not None else None
        owner = module if module is not None else call.module if call is not None else ""
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            message=message,
            evidence=evidence,
            fix=fix or self.fix,
            source=place,
            module=owner,
            call=call.index if call is not None else None,
        )
