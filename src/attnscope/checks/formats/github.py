"""A report as workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from attnscope.checks.finding import Finding, Severity
from attnscope.checks.formats.wording import is_place, short_path
from attnscope.checks.report import Report

__all__ = ["github"]

_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}
_IN_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_TEXT, ":": "%3A", ",": "%2C"}


def github(report: Report) -> str:
    """Return one command a finding, each in a line; "" where nothing was found."""
    return "\n".join(_command(finding) for finding in report.findings)


def _command(finding: Finding) -> str:
    properties = {"title": f"{finding.code} {finding.name}"}
    source = finding.source
    if source is not None and is_place(source):
        properties = {"file": short_path(source.file), "line": str(source.line), **properties}
    said = ",".join(f"{name}={_escaped(text, _IN_PROPERTY)}" for name, text in properties.items())
    message = _escaped("\n".join(_message(finding)), _IN_TEXT)
    return f"::{_COMMANDS[finding.severity]} {said}::{message}"


def _message(finding: Finding) -> Iterator[str]:
    """Iterate over the lines that stand in the annotation."""
    yield finding.message
    if finding.module or finding.also:
        more = f" and {len(finding.also)} more" if finding.also else ""
        yield f"in {finding.module or 'the model itself'}{more}"
    if finding.fix:
        yield f"fix: {finding.fix}"
    for each in finding.follows:
        yield f"follows from it: {each.code} {each.name}: {each.message}"


def _escaped(text: str, signs: dict[str, str]) -> str:
    """Return text with the signs replaced that would end a command, a property or a line."""
    return "".join(signs.get(sign, sign) for sign in text)
