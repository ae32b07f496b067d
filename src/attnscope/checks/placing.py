"""Findings in a library's code are put at the author's line that leads there.

An annotation of a pull request, a comment that silences and whoever reads need a line of the
author's own; the library's line stays in the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attnscope.calls.source import Source
from attnscope.checks.caller import users_line
from attnscope.checks.finding import Finding
from attnscope.checks.formats.wording import short_path
from attnscope.checks.graphs import traced_line
from attnscope.checks.lines import is_installed
from attnscope.checks.report import Report
from attnscope.checks.subject.subject import Subject

__all__ = ["at_callers", "at_maker"]


def at_callers(subject: Subject, finding: Finding) -> Finding:
    """Return a finding at the line of the author's own code that calls the library's.

    What a graph's code does was written by the author elsewhere.
    """
    finding = _written(subject, finding)
    return _moved(finding, lambda each, source: users_line(subject, each.module, source))


def at_maker(report: Report, maker: Source | None) -> Report:
    """Return a report of a model that is a library's own, found at the line that makes it."""
    if maker is None or is_installed(maker.file):
        return report
    moved = tuple(_moved(each, lambda _each, _source: maker) for each in report.findings)
    return replace(report, findings=moved)


def _written(subject: Subject, finding: Finding) -> Finding:
    source = finding.source
    follows = tuple(_written(subject, each) for each in finding.follows)
    if source is None:
        return replace(finding, follows=follows)
    return replace(finding, source=traced_line(subject, source), follows=follows)


def _moved(finding: Finding, better: Callable[[Finding, Source], Source]) -> Finding:
    source = finding.source
    follows = tuple(_moved(each, better) for each in finding.follows)
    if source is None or not is_installed(source.file):
        return replace(finding, follows=follows)
    line = better(finding, source)
    if is_installed(line.file):
        return replace(finding, follows=follows)
    there = {"library_line": f"{short_path(source.file)}:{source.line}"}
    return replace(finding, source=line, evidence={**finding.evidence, **there}, follows=follows)
