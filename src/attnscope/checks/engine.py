"""Runs rules over a subject, and makes one finding of one fault."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

from attnscope.capture.stance import opened_compiled
from attnscope.checks.finding import SEVERITIES, Finding
from attnscope.checks.folding import folded
from attnscope.checks.opening import opened
from attnscope.checks.placing import at_callers
from attnscope.checks.report import Report, SkippedRule
from attnscope.checks.rule import Rule, Skipped
from attnscope.checks.subject.restoring import restored
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.unfit import refuse_unfit
from attnscope.checks.unreadable import UNREADABLE
from attnscope.errors import AttnscopeError, TargetError

__all__ = ["run_rules"]

_MOST_NAMES = 3

_JUDGED_BY = {
    "causal": "AS201",
    "padding": "AS202",
    "documents": "AS209",
    "window": "AS210",
    "cache": "AS601",
}
"""The rule that compares what `expect` declares by a key with what happens."""


def run_rules(subject: Subject, rules: Iterable[Rule]) -> Report:
    """Run some rules and return the report.

    Raises:
        InputError: the inputs aren't finite.
        TargetError: the forward raises, and no rule can say why.
    """
    # Compiled code runs eagerly: it would be compiled anew for each length.
    with opened_compiled(), restored(subject.run, subject.given.values):
        return _run(subject, rules)


def _run(subject: Subject, rules: Iterable[Rule]) -> Report:
    began = time.monotonic()
    subject.announce("running the model")
    crash = subject.crash
    if crash is None:
        refuse_unfit(subject)
    open_one, gates = opened(subject)
    findings: list[Finding] = []
    ran, skipped = [], []
    for rule in rules:
        if crash is not None and not rule.on_crash:
            skipped.append(SkippedRule(rule.code, f"the forward raised {_text(crash)}"))
            continue
        subject.announce(f"{rule.code} {rule.name}")
        try:
            findings += rule.check(subject if rule.as_it_starts else open_one)
            ran.append(rule.code)
        except Skipped as reason:
            skipped.append(SkippedRule(rule.code, reason.reason))
        except Exception as error:  # noqa: BLE001  a rule that fails must not hide what others found
            skipped.append(SkippedRule(rule.code, _own_fault(error), failed=True))
    if crash is not None and not any(finding.counts for finding in findings):
        raise TargetError(
            f"checking {subject.name}",
            f"its forward raised {_text(crash)}{_where(crash)}",
            "mend that line, or give other inputs",
        ) from crash
    return Report(
        subject.name,
        len(subject.calls),
        tuple(sorted((at_callers(subject, each) for each in folded(findings)), key=_order)),
        tuple(ran),
        tuple(skipped),
        notes=(
            *subject.roles.notes,
            *_opening(gates),
            *_undecided(subject, skipped),
            *_unseen(subject),
            *subject.trace.notes,
        ),
        seconds=time.monotonic() - began,
    )


def _order(finding: Finding) -> tuple[int, str, int]:
    call = finding.call if finding.call is not None else -1
    return SEVERITIES.index(finding.severity), finding.code, call


def _opening(gates: tuple[str, ...]) -> Iterable[str]:
    if gates:
        names = ", ".join(gates[:_MOST_NAMES]) + (", …" if len(gates) > _MOST_NAMES else "")
        yield (
            f"some attention does not reach the output yet, since {names} start"
            f"{'s' if len(gates) == 1 else ''} at zero: rules looked at a copy with other numbers "
            "there"
        )


def _undecided(subject: Subject, skipped: Iterable[SkippedRule]) -> Iterable[str]:
    """Iterate over what the author declared, and no rule could compare with what happened."""
    reasons = {each.code: each.reason for each in skipped if not each.failed}
    for key, code in _JUDGED_BY.items():
        if subject.crash is None and subject.expect.get(key) and code in reasons:
            yield f"expect {key} could not be checked: {reasons[code]}"


def _unseen(subject: Subject) -> Iterable[str]:
    if subject.crash is None and not subject.calls:
        yield _without_calls(subject)
    if subject.crash is None and not subject.base.outputs:
        what = (
            "None, as a forward without a return does" if _is_none(subject) else "no float tensor"
        )
        yield f"the model returns {what}: nothing that comes out of it could be judged"
    for unseen in subject.trace.unseen:
        yield f"not looked into: {unseen.module or 'the model itself'}: {unseen.reason}"


def _is_none(subject: Subject) -> bool:
    with contextlib.suppress(Skipped):
        return subject.raw() is None
    return False


def _without_calls(subject: Subject) -> str:
    from attnscope.checks.masking.additive import additive_of

    try:
        found = additive_of(subject)
    except UNREADABLE:
        found = ()
    if found:
        return (
            f"attention with additive scores was seen ({found[0].softmax.source}): it is looked at "
            "from its softmax on, and rules about q and k have nothing to look at"
        )
    return "no attention was seen in this run: rules about attention had nothing to look at"


def _own_fault(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"attnscope itself failed in this rule, please report it: {_text(error)} at {where}"


def _text(error: BaseException) -> str:
    message = error.found if isinstance(error, AttnscopeError) else " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:300]}"


def _where(error: BaseException) -> str:
    from attnscope.checks.lines import line_of

    source = line_of(error)
    return f" at {source}" if source is not None else ""
