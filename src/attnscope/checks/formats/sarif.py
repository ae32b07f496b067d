"""A report as SARIF 2.1.0 (OASIS, errata 01), which code-scanning services read.

Files are named relative to the working directory. A finding keeps its fingerprint when lines
move; a silenced one stays in the file, with what silenced it and why.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attnscope.checks import rules as table
from attnscope.checks.finding import Finding
from attnscope.checks.fingerprint import KIND, fingerprint
from attnscope.checks.formats.sarif_rules import descriptor, unknown_descriptor
from attnscope.checks.formats.wording import is_place
from attnscope.checks.report import Report, Suppressed
from attnscope.checks.rule import Rule

__all__ = ["sarif"]

VERSION = "2.1.0"
SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_BASE = "%SRCROOT%"
_IN_SOURCE = "comment"
_LINK = re.compile(r"\[([^\[\]]*)\]\(")
Json = dict[str, Any]


def sarif(report: Report) -> Json:
    """Return a report as a SARIF log of one run."""
    findings = [(finding, None) for finding in report.findings]
    silenced = [(each.finding, each) for each in report.suppressed]
    places = _Places(report.target)
    rules = _rules(report)
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(rules)},
        "automationDetails": {"id": f"attnscope/{report.target}/"},
        "invocations": [_invocation(report, numbers)],
        "originalUriBaseIds": {_BASE: {"uri": f"{Path.cwd().as_uri().rstrip('/')}/"}},
        "columnKind": "unicodeCodePoints",
        "results": [
            _result(finding, by, numbers, places) for finding, by in [*findings, *silenced]
        ],
        "properties": {"calls": report.calls, "rulesRun": list(report.rules_run)},
    }
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


# -- the tool ------------------------------------------------------------------------------------


def _driver(rules: list[Json]) -> Json:
    from attnscope import __version__

    return {
        "name": "attnscope",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }


def _rules(report: Report) -> list[Json]:
    """Return all rules, and after them those that only the report knows."""
    known: list[Rule] = list(table.RULES)
    codes = {rule.code for rule in known}
    found = [*report.findings, *(each.finding for each in report.suppressed)]
    found += [each for finding in found for each in finding.follows]
    strange = {each.code: each.name for each in found if each.code not in codes}
    strange |= {
        each.code: "" for each in report.rules_skipped if each.code not in {*codes, *strange}
    }
    return [descriptor(rule) for rule in known] + [
        unknown_descriptor(code, name) for code, name in sorted(strange.items())
    ]


def _invocation(report: Report, numbers: Mapping[str, int]) -> Json:
    """Return what is told beside the findings: rules that were skipped, and what was assumed."""
    skipped = [
        {
            "level": "note",
            "descriptor": {"id": "skipped"},
            "associatedRule": {"id": each.code, "index": numbers[each.code]},
            "message": _message(f"{each.code} was skipped: {each.reason}"),
        }
        for each in report.rules_skipped
    ]
    remarks = [
        {"level": "note", "descriptor": {"id": "remark"}, "message": _message(note)}
        for note in report.notes
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": [*skipped, *remarks]}


# -- results -------------------------------------------------------------------------------------


def _result(
    finding: Finding, by: Suppressed | None, numbers: Mapping[str, int], places: _Places
) -> Json:
    more = {"also": list(finding.also)} if finding.also else {}
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": numbers[finding.code],
        "level": finding.severity,
        "message": _message(
            f"{finding.message}\n\nFix: {finding.fix}" if finding.fix else finding.message
        ),
        "locations": [places.location(finding)],
        "partialFingerprints": {KIND: fingerprint(finding)},
        "suppressions": [] if by is None else [_suppression(by)],
        "properties": {"evidence": _plain(finding.evidence), "call": finding.call, **more},
    }
    if finding.follows:
        result["relatedLocations"] = [
            {"id": number, **places.location(each), "message": _follower(each)}
            for number, each in enumerate(finding.follows, start=1)
        ]
    return result


def _suppression(by: Suppressed) -> Json:
    kind = "inSource" if by.by == _IN_SOURCE else "external"
    return {"kind": kind, "justification": by.reason or f"by {by.by}"}


def _follower(finding: Finding) -> Json:
    return _message(f"follows from it: {finding.code} {finding.name}: {finding.message}")


def _message(text: str) -> Json:
    """Return a text in which nothing reads as a placeholder or as a link."""
    escaped = text.replace("\\", "\\\\") if _LINK.search(text) else text
    escaped = _LINK.sub(r"\\[\1\\](", escaped)
    return {"text": escaped.replace("{", "{{").replace("}", "}}")}


class _Places:
    """Names files relative to the working directory.

    Args:
        target: the TARGET, whose file stands in where a finding has no line.
    """

    def __init__(self, target: str) -> None:
        left = target.rpartition(":")[0] or target
        self._fallback = left if left.endswith(".py") and Path(left).is_file() else None

    def location(self, finding: Finding) -> Json:
        """Return where a finding is: file and line, module and function."""
        source = finding.source
        location: Json = {}
        if source is not None and is_place(source):
            region: Json = {"startLine": source.line}
            if source.code:
                region["snippet"] = {"text": source.code}
            location["physicalLocation"] = {
                "artifactLocation": _artifact(source.file),
                "region": region,
            }
        elif self._fallback is not None:
            location["physicalLocation"] = {"artifactLocation": _artifact(self._fallback)}
        logical = list(_logical(finding))
        return {**location, "logicalLocations": logical} if logical else location


def _artifact(file: str) -> Json:
    """Return a file's address: relative below the working directory, else absolute."""
    path = Path(os.path.abspath(file))  # noqa: PTH100  a link keeps the name that it is known by
    try:
        relative = path.relative_to(Path.cwd())
    except ValueError:
        return {"uri": path.as_uri()}
    return {"uri": quote(relative.as_posix()), "uriBaseId": _BASE}


def _logical(finding: Finding) -> Iterator[Json]:
    if finding.module:
        name = finding.module.rpartition(".")[2]
        yield {"fullyQualifiedName": finding.module, "name": name, "kind": "module"}
    function = finding.source.function if finding.source is not None else ""
    if function and not function.startswith("<"):
        name = function.rpartition(".")[2]
        yield {"fullyQualifiedName": function, "name": name, "kind": "function"}


def _plain(value: Any) -> Any:
    """Return evidence as JSON has it: a number that is not finite as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
