"""One test item of a battery, and the report that all of its items share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

from attnscope.checks.finding import Finding
from attnscope.checks.report import Report
from attnscope.checks.rule import Rule
from attnscope.testing.asked import need_pytest
from attnscope.testing.running import Asked, run
from attnscope.testing.wording import failure

__all__ = ["RuleTest", "Shared"]

_DOING = "running a rule as a test"


class Shared:
    """The one report of a battery, made when the first item asks for it."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._report: Report | None = None
        self._broken = ""

    def report(self) -> Report:
        """Return the report; where checking raises, the first item shows it, the others skip."""
        if self._broken:
            need_pytest(_DOING).skip(f"nothing was checked: {self._broken}")
        if self._report is None:
            try:
                self._report = run(self._asked)
            except Exception as error:
                self._broken = f"{type(error).__name__}: {error}"
                raise
        return self._report


@dataclass(eq=False)
class RuleTest:
    """One item of a battery: call it, and it passes, fails or skips.

    rule: what it is about. expected: whether it is expected to fail. asked: whether it was called;
    the plugin fails a test that forgot to.
    """

    rule: Rule
    shared: Shared = field(repr=False)
    expected: bool = False
    asked: bool = False

    def __call__(self) -> None:
        """Pass where the rule was run and found neither an error nor a warning.

        It fails with the report of what this rule found. It skips where the rule could not be run,
        with the reason, and where what it found follows from what another rule found, whose own
        item fails.
        """
        __tracebackhide__ = True
        pytest = need_pytest(_DOING)
        self.asked = True
        report, code = self.shared.report(), self.rule.code
        own = tuple(each for each in report.findings if each.code == code)
        if any(finding.counts for finding in own):
            pytest.fail(failure(replace(report, findings=own)), pytrace=False)
        cause = next((each for each in report.findings if _follows(each, code)), None)
        if cause is not None:
            self._judged_elsewhere(cause)
        silenced = next((each for each in report.suppressed if each.finding.code == code), None)
        if silenced is not None:
            pytest.xfail(f"silenced by {silenced.by}: {silenced.reason}")
        if code in report.rules_run:
            return
        reasons = [skipped.reason for skipped in report.rules_skipped if skipped.code == code]
        if not reasons:
            pytest.fail(f"{code} was neither run nor skipped with a reason", pytrace=False)
        pytest.skip("; ".join(reasons))

    def _judged_elsewhere(self, cause: Finding) -> NoReturn:
        """Skip what is but a consequence, unless it is expected to fail for a reason of its own."""
        __tracebackhide__ = True
        pytest = need_pytest(_DOING)
        said = f"{self.rule.code} {self.rule.name} follows from {cause.code} {cause.name}"
        if self.expected:
            pytest.fail(f"{said}: {cause.message}", pytrace=False)
        pytest.skip(f"{said}, which has an item of its own")
        raise AssertionError(said)  # not reached: skip raises, which its type doesn't say


def _follows(finding: Finding, code: str) -> bool:
    """Return whether an error or a warning of some code is folded under a finding that counts."""
    return finding.counts and any(
        (each.code == code and each.counts) or _follows(each, code) for each in finding.follows
    )
