"""One fault, one finding: the same fault in several layers, and what follows from another fault."""

from __future__ import annotations

from collections.abc import Iterable

from attnscope.checks.finding import SEVERITIES, Finding
from attnscope.checks.rules import rule_of

__all__ = ["folded"]


def folded(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding for each fault.

    A finding of the same rule at the same line becomes a further place of the first. A finding
    whose code another one `explains` is folded under that one, where the cause is graver, or as
    grave and about the same call, an earlier one, or the model as a whole.
    """
    once = _joined(findings)
    cause = _causes(once)
    roots: dict[int, Finding] = {at: each for at, each in enumerate(once) if at not in cause}
    for at in sorted(cause):
        root = cause[at]
        while root in cause:
            root = cause[root]
        roots[root] = roots[root].with_follower(once[at])
    return list(roots.values())


def _joined(findings: Iterable[Finding]) -> list[Finding]:
    """Join the findings of one rule at one line."""
    first: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        source = finding.source
        place = (source.file, source.line) if source is not None else (finding.module,)
        key = (finding.code, *place)
        if key not in first:
            first[key] = finding
        elif finding.module != first[key].module and finding.module not in first[key].also:
            first[key] = first[key].with_place(finding.module)
    return list(first.values())


def _causes(findings: list[Finding]) -> dict[int, int]:
    """Return for each finding that follows from another one the number of that one."""
    order = sorted(
        range(len(findings)), key=lambda at: (_rank(findings[at]), findings[at].code, at)
    )
    cause: dict[int, int] = {}
    for root in order:
        rule = rule_of(findings[root].code)
        for at, finding in enumerate(findings):
            if rule is None or at == root or at in cause or finding.code not in rule.explains:
                continue
            if _follows(finding, findings[root]) and not _under(root, at, cause):
                cause[at] = root
    return cause


def _under(root: int, at: int, cause: dict[int, int]) -> bool:
    while root in cause:
        root = cause[root]
        if root == at:
            return True
    return root == at


def _follows(finding: Finding, root: Finding) -> bool:
    if _rank(root) != _rank(finding):
        return _rank(root) < _rank(finding)
    return finding.call is None or root.call is None or finding.call >= root.call


def _rank(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)
