"""One check inside a test, which fails with the report as its text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from attnscope.checks.report import Report, Suppressed
from attnscope.testing.asked import (
    Reasons,
    need_pytest,
    project_settings,
    reasons_by_code,
    wanted_rules,
)
from attnscope.testing.running import Asked, Target, run
from attnscope.testing.wording import failure

__all__ = ["checked"]

_DOING = "checking in a test"


def checked(
    target: Target,
    inputs: Any = None,
    *,
    expect: Mapping[str, Any] | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    allow: Reasons | None = None,
    seed: int = 0,
) -> Report:
    """Check a target inside a test; the fixture `attnscope_check` is this function.

    Args:
        target: as that of `battery`.
        inputs: the same.
        expect: the same.
        select: codes, beginnings of codes or names of the rules to run; none: all.
        ignore: the same for rules that are left out.
        allow: by code or name, the reason why what is found is no failure. It is found all the
            same, and stands in `report.suppressed`; what is allowed and not found stands in
            `report.notes`.
        seed: as that of `battery`.

    Returns:
        The report, without an error or a warning among its findings.

    Raises:
        pytest.fail.Exception: there is one; its text is the report.
        InputError: there is no rule of a code or name, none is left, or no reason to allow one.
        MissingExtraError: pytest is not installed.
    """
    __tracebackhide__ = True
    pytest = need_pytest(_DOING)
    reasons = reasons_by_code(allow, _DOING)
    ignored = tuple(ignore)
    settings = project_settings(target, select, ignored)
    wanted_rules(settings, ignored, _DOING)
    report = _allowing(run(Asked(target, inputs, expect, settings, seed)), reasons)
    if not report.ok:
        pytest.fail(failure(report), pytrace=False)
    return report


def _allowing(report: Report, reasons: Mapping[str, str]) -> Report:
    """Return the report with the findings that are allowed among the suppressed ones."""
    moved = tuple(
        Suppressed(finding, "allow", reasons[finding.code])
        for finding in report.findings
        if finding.code in reasons
    )
    found = {each.finding.code for each in moved}
    unused = tuple(
        f"{code} is allowed ({reason}) and was not found: take it out of allow"
        for code, reason in reasons.items()
        if code not in found
    )
    return replace(
        report,
        findings=tuple(each for each in report.findings if each.code not in reasons),
        suppressed=(*report.suppressed, *moved),
        notes=(*report.notes, *unused),
    )
