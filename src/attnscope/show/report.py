"""The result of a check for people: each finding a card, notes in a line, counts at the end."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnscope.checks.finding import Finding
from attnscope.checks.formats.wording import (
    Card,
    CodeLine,
    card,
    counted,
    located,
    remarks,
    silenced,
    skipped,
)
from attnscope.checks.report import Report

__all__ = ["report_view"]

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}
_INDENT = 2
_GUTTER = " │ "
_MARK = "❯"


def report_view(report: Report, *, verbose: bool = False, width: int = 100) -> RenderableType:
    """Return a report, to be read from the top.

    Args:
        report: of `attnscope.check`.
        verbose: whole cards of notes too, then what was silenced, the rules that were skipped with
            their reasons, and what was assumed.
        width: columns of the terminal.
    """
    parts: list[list[RenderableType]] = []
    brief: list[RenderableType] = []
    for finding in report.findings:
        if finding.counts or verbose:
            parts.append(list(_card(card(finding), width)))
        else:
            brief.append(_brief(finding))
    parts.append(brief)
    parts.append(list(_rest(report, verbose=verbose)))
    parts.append([_last(report, "" if verbose else "--verbose says why")])
    lines: list[RenderableType] = []
    for part in parts:
        lines += [Text(), *part] if part and lines else part
    return Group(*lines)


# -- one finding ---------------------------------------------------------------------------------


def _card(shown: Card, width: int) -> Iterator[RenderableType]:
    """Iterate over the parts of a finding: what, where, the line, the numbers, why, the fix."""
    colour = _COLOURS[shown.severity]
    yield Text.assemble((shown.severity, f"bold {colour}"), (f" {shown.title}", "bold"))
    where = f", {shown.where}" if shown.where else ""
    yield _indented(Text.assemble(("at ", "dim"), (shown.place, "bold"), (where, "dim")))
    if shown.code:
        yield _indented(_code(shown.code, colour, width - _INDENT))
    yield Text()
    yield _indented(Text(shown.message))
    if shown.evidence:
        yield _indented(_pairs(shown.evidence), 2 * _INDENT)
    said = [(name, text) for name, text in (("why", shown.why), ("fix", shown.fix)) if text]
    if said:
        yield Text()
        yield _indented(_pairs(tuple(said), bold=True))
    if shown.also:
        yield _indented(Text(f"also in: {shown.also}", "dim"))
    for text in shown.follows:
        yield _indented(Text(f"follows from it: {text}", "dim", no_wrap=True, overflow="ellipsis"))


def _code(lines: tuple[CodeLine, ...], colour: str, width: int) -> Text:
    """Return the line at fault between its neighbours, each cut where the terminal ends."""
    digits = len(str(lines[-1].number))
    drawn = Text(no_wrap=True, overflow="ellipsis")
    for at, line in enumerate(lines):
        if at:
            drawn.append("\n")
        gutter = f"{_MARK if line.at_fault else ' '} {line.number:>{digits}}{_GUTTER}"
        room = max(width - len(gutter), 1)
        text = line.text if len(line.text) <= room else f"{line.text[: room - 1]}…"
        drawn.append(gutter, f"bold {colour}" if line.at_fault else "dim")
        drawn.append(text, "" if line.at_fault else "dim")
    return drawn


def _pairs(rows: tuple[tuple[str, str], ...], *, bold: bool = False) -> Table:
    """Return names with texts; texts that need more than a line go on below themselves."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold" if bold else "dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    return table


def _brief(finding: Finding) -> RenderableType:
    """Return a note: what, where, and its sentence below."""
    more = f" and {len(finding.also)} more" if finding.also else ""
    head = Text.assemble(
        (finding.severity, f"bold {_COLOURS[finding.severity]}"),
        (f" {finding.code} {finding.name}", "bold"),
        (f", {located(finding)}{more}", "dim"),
    )
    return Group(head, _indented(Text(finding.message)))


def _indented(part: RenderableType, columns: int = _INDENT) -> Padding:
    return Padding(part, (0, 0, 0, columns), expand=False)


# -- the end -------------------------------------------------------------------------------------


def _rest(report: Report, *, verbose: bool) -> Iterator[RenderableType]:
    """Iterate over what was assumed, before it what is told to those who ask for all."""
    if verbose:
        for title, rows in (("silenced", silenced(report)), ("skipped", skipped(report))):
            for at, (what, why) in enumerate(rows):
                if not at:
                    yield Text(title, "bold")
                yield _indented(Text(what))
                yield _indented(Text(why, "dim"), 2 * _INDENT)
    for note in remarks(report, verbose=verbose):
        yield Text.assemble(("remark ", "cyan"), (note, "dim"))


def _last(report: Report, hint: str) -> Text:
    """Return the counts, in the colour of the worst."""
    worst = next((each.severity for each in report.findings if each.counts), None)
    calm = "green" if report.calls else "yellow"
    colour = calm if worst is None else _COLOURS[worst]
    head, sign, tail = counted(report, hint).partition(": " if report.ok else ";")
    return Text.assemble((head, f"bold {colour}"), sign, tail)
