"""A finding and a report in words, ready to be drawn: with colours, or as plain text.

Whoever draws them decides on columns and colours alone, so that a terminal, a log and a pull
request say the same.
"""

from __future__ import annotations

import linecache
import math
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnscope.checks.finding import SEVERITIES, Finding
from attnscope.checks.report import Report
from attnscope.checks.rules import rule_of

if TYPE_CHECKING:  # so that words can be had without torch
    from attnscope.calls.source import Source

__all__ = [
    "Card",
    "CodeLine",
    "card",
    "counted",
    "first_sentence",
    "is_place",
    "located",
    "remarks",
    "short_path",
    "silenced",
    "skipped",
]

_INSTALLED = re.compile(r"^.*/(?:site|dist)-packages/")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])")
_CONTEXT = 1
_MOST_ITEMS, _MOST_PLACES, _MOST_REMARKS = 8, 3, 3


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of the author's file; at_fault: the one that a finding points at."""

    number: int
    text: str
    at_fault: bool


@dataclass(frozen=True, slots=True)
class Card:
    """One finding in words.

    place: `file:line in function`, or the module where no line is known; where: module and call;
    code: the line at fault with its neighbours. evidence: names and values. why: what it does to a
    model; follows: a line for each finding that comes of this one.
    """

    severity: str
    title: str
    place: str
    where: str
    code: tuple[CodeLine, ...]
    message: str
    evidence: tuple[tuple[str, str], ...]
    why: str
    fix: str
    also: str
    follows: tuple[str, ...]


def card(finding: Finding) -> Card:
    """Return a finding in words."""
    rule = rule_of(finding.code)
    return Card(
        severity=finding.severity,
        title=f"{finding.code} {finding.name}",
        place=located(finding),
        where=_where(finding),
        code=tuple(_code(finding.source)) if is_place(finding.source) else (),
        message=finding.message,
        evidence=tuple((_label(name), _value(item)) for name, item in finding.evidence.items()),
        why=first_sentence(rule.why) if rule is not None else "",
        fix=finding.fix,
        also=_also(finding.also),
        follows=tuple(_follower(each) for each in finding.follows),
    )


def counted(report: Report, hint: str) -> str:
    """Return the last line of a report: how many findings of each severity, how many rules.

    hint: where to read why rules were skipped, e.g. "--verbose says why".
    """
    found = Counter[str](finding.severity for finding in report.findings)
    counts = [_number(found[name], name) for name in SEVERITIES if found[name]]
    rules = _number(len(report.rules_run), "rule")
    if report.ok:
        calls = _number(report.calls, "call")
        sound = "no fault found" if report.calls else "no attention seen, no fault found"
        head = ", ".join([sound, *counts]) + f": {rules} over {calls}"
    else:
        head = f"{', '.join(counts)}; {rules} run"
    left = {each.code for each in report.rules_skipped} - set(report.rules_run)
    ignored = {each.code for each in report.rules_skipped if each.ignored}
    said = [f"{len(left - ignored)} skipped"] if left - ignored else []
    said += [f"{len(ignored)} ignored"] if ignored else []
    said += [_silenced_by(report)] if report.suppressed else []
    tail = f" ({hint})" if report.rules_skipped and hint else ""
    return "; ".join([head, *said]) + tail if report.ok else ", ".join([head, *said]) + tail


def skipped(report: Report) -> Iterator[tuple[str, str]]:
    """Iterate over the codes of rules that were skipped for one reason, and the reason."""
    ran = set(report.rules_run)
    groups: dict[tuple[bool, str], list[str]] = {}
    for each in report.rules_skipped:
        codes = groups.setdefault((each.code in ran, each.reason), [])
        codes += [each.code] if each.code not in codes else []
    for (in_part, reason), codes in groups.items():
        yield f"{', '.join(codes)}{' in part' if in_part else ''}", reason


def silenced(report: Report) -> Iterator[tuple[str, str]]:
    """Iterate over the findings that were silenced: what and where, and by what and why."""
    for each in report.suppressed:
        finding = each.finding
        yield (
            f"{finding.code} {finding.name}, {located(finding)}",
            f"{each.by}: {each.reason}" if each.reason else each.by,
        )


def remarks(report: Report, *, verbose: bool) -> Iterator[str]:
    """Iterate over what was assumed or not looked into: all, or a few and how many more."""
    most = len(report.notes) if verbose else _MOST_REMARKS
    yield from report.notes[:most]
    left = len(report.notes) - most
    if left > 0:
        yield f"… {_number(left, 'more remark')}"


def is_place(source: Source | None) -> bool:
    """Return whether a source is a line of a file."""
    return source is not None and source.line > 0 and not source.file.startswith("<unknown")


def located(finding: Finding) -> str:
    """Return `file:line` of a finding, or its module where no line is known."""
    source = finding.source
    if source is None or not is_place(source):
        return finding.module or "the model itself"
    return f"{short_path(source.file)}:{source.line}"


def short_path(file: str) -> str:
    """Return a file as a person would name it: from the working directory, or from its package."""
    if not Path(file).is_absolute():
        return file
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return _INSTALLED.sub("", file if relative.startswith(os.pardir) else relative)


def first_sentence(text: str) -> str:
    """Return the first sentence of a paragraph, in one line."""
    return _END_OF_SENTENCE.split(" ".join(text.split()), maxsplit=1)[0]


# -- the parts of a card -------------------------------------------------------------------------


def _where(finding: Finding) -> str:
    """Return function, module and call, as far as they are known and not said elsewhere."""
    function = finding.source.function if is_place(finding.source) and finding.source else ""
    said = [f"in {function}"] if function and not function.startswith("<") else []
    said += [finding.module] if finding.module and is_place(finding.source) else []
    said += [f"call {finding.call}"] if finding.call is not None else []
    return ", ".join(said)


def _code(source: Source | None) -> Iterator[CodeLine]:
    """Iterate over the line at fault and its neighbours, without the indentation they share."""
    if source is None:
        return
    linecache.checkcache(source.file)
    lines = linecache.getlines(source.file)
    current = lines[source.line - 1] if source.line <= len(lines) else ""
    if not current.strip() or (source.code and current.strip() != source.code.strip()):
        if source.code:  # the file has changed since: what was seen is shown, without neighbours
            yield CodeLine(source.line, source.code.strip(), at_fault=True)
        return
    first = max(1, source.line - _CONTEXT)
    shown = [line.rstrip().expandtabs() for line in lines[first - 1 : source.line + _CONTEXT]]
    for number, text in enumerate(textwrap.dedent("\n".join(shown)).split("\n"), start=first):
        if text.strip() or first < number < first + len(shown) - 1:
            yield CodeLine(number, text, at_fault=number == source.line)


def _also(places: Sequence[str]) -> str:
    """Return the further places: three, or the first and how many more."""
    named = [place or "the model itself" for place in places]
    if len(named) <= _MOST_PLACES:
        return ", ".join(named)
    return f"{named[0]} … ({len(named) - 1} more)"


def _follower(finding: Finding) -> str:
    return f"{finding.code} {finding.name} ({located(finding)}): {finding.message}"


def _label(name: str) -> str:
    return name.replace("_", " ")


def _value(value: Any) -> str:
    """Return a piece of evidence: numbers with four digits, long lists cut."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return _figure(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_label(str(name))} {_value(item)}" for name, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        items = [_value(item) for item in value]
        more = [f"… ({len(items) - _MOST_ITEMS} more)"] if len(items) > _MOST_ITEMS else []
        return ", ".join(items[:_MOST_ITEMS] + more) or "none"
    return " ".join(str(value).split())


def _figure(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    return f"{value:.4g}"


# -- counts --------------------------------------------------------------------------------------


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _silenced_by(report: Report) -> str:
    by = Counter(each.by for each in report.suppressed)
    kinds = ", ".join(f"{count} by {name}" for name, count in by.items())
    return f"{len(report.suppressed)} silenced: {kinds}"
