"""The text of a test that fails."""

from __future__ import annotations

from attnscope.checks.report import Report

__all__ = ["failure"]


def failure(report: Report) -> str:
    """Return a report as text whose first line, which pytest's summary shows, names the faults."""
    faults = dict.fromkeys(f"{each.code} {each.name}" for each in report.findings if each.counts)
    return f"{', '.join(faults)} in {report}"
