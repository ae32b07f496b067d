"""A report as plain text of at most 100 columns: for logs, notebooks and pull requests."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from attnscope.checks.finding import Finding
from attnscope.checks.formats.wording import (
    Card,
    card,
    counted,
    located,
    remarks,
    silenced,
    skipped,
)
from attnscope.checks.report import Report

__all__ = ["plain"]

WIDTH = 100
_STEP = "  "
_GAP = 2
_BELOW_NAME = " " * len("  why: ")
_MOST_LABEL = 28


def plain(report: Report, *, verbose: bool = False) -> str:
    """Return a report as plain text.

    Args:
        report: of `attnscope.check`.
        verbose: whole cards of notes too, then the rules that were skipped with their reasons,
            what was silenced, and what was assumed.
    """
    blocks = [[f"{report.target}"]]
    brief: list[str] = []
    for finding in report.findings:
        if finding.counts or verbose:
            blocks.append(list(_lines(card(finding))))
        else:
            brief += _brief(finding)
    blocks.append(brief)
    blocks.append(list(_rest(report, verbose=verbose)))
    hint = "" if verbose else "report.rules_skipped says why"
    blocks.append(_wrapped(counted(report, hint), "", ""))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _lines(shown: Card) -> Iterator[str]:
    """Iterate over the lines of one finding."""
    yield f"{shown.severity} {shown.title}"
    yield from _wrapped(", ".join(filter(None, (f"at {shown.place}", shown.where))), _STEP, _STEP)
    digits = len(str(shown.code[-1].number)) if shown.code else 0
    for line in shown.code:
        mark = ">" if line.at_fault else " "
        yield _cut(f"{_STEP}{mark} {line.number:>{digits}} | {line.text}")
    yield from ["", *_wrapped(shown.message, _STEP, _STEP)]
    wide = min(_MOST_LABEL, max((len(name) for name, _ in shown.evidence), default=0)) + _GAP
    for name, value in shown.evidence:
        start = _STEP * 2 + f"{name}{' ' * _GAP}".ljust(wide)
        yield from _wrapped(value, start, " " * (2 * len(_STEP) + wide))
    said = [(name, text) for name, text in (("why", shown.why), ("fix", shown.fix)) if text]
    yield from [""] if said else []
    for name, text in said:
        yield from _wrapped(text, f"{_STEP}{name}: ", _BELOW_NAME)
    if shown.also:
        yield from _wrapped(f"also in: {shown.also}", _STEP, _STEP)
    for text in shown.follows:
        yield from _wrapped(f"follows from it: {text}", _STEP, _STEP)


def _brief(finding: Finding) -> list[str]:
    """Return a note in few lines."""
    places = f" and {len(finding.also)} more" if finding.also else ""
    head = f"{finding.severity} {finding.code} {finding.name}, {located(finding)}{places}"
    return _wrapped(f"{head}: {finding.message}", "", _STEP)


def _rest(report: Report, *, verbose: bool) -> Iterator[str]:
    """Iterate over what was assumed, before it what is told to those who ask for all."""
    if verbose:
        for what, why in silenced(report):
            yield from _wrapped(f"silenced {what}, by {why}", "", _STEP)
        for codes, reason in skipped(report):
            yield from _wrapped(f"skipped {codes}: {reason}", "", _STEP)
    for note in remarks(report, verbose=verbose):
        yield from _wrapped(f"remark: {note}", "", _STEP)


def _wrapped(text: str, start: str, below: str) -> list[str]:
    """Return text in lines of at most 100 columns, of which the first begins with `start`."""
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=start, subsequent_indent=below, break_on_hyphens=False
    )
    return lines or [start.rstrip()]


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
