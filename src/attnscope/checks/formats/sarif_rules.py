"""A rule as SARIF describes it: texts, and help as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attnscope.checks.finding import Severity
from attnscope.checks.formats.wording import first_sentence
from attnscope.checks.rule import Rule

__all__ = ["descriptor", "unknown_descriptor"]

_GITHUB: dict[Severity, str] = {
    "error": "error",
    "warning": "warning",
    "note": "recommendation",
}
"""Severities in the words of GitHub's code scanning."""


def descriptor(rule: Rule) -> dict[str, Any]:
    """Return a rule as a `reportingDescriptor`."""
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": first_sentence(rule.what)},
        "fullDescription": {"text": _one_line(rule.what)},
        "help": {"text": "\n\n".join(_text(rule)), "markdown": "\n\n".join(_markdown(rule))},
        "defaultConfiguration": {"level": rule.severity},
        "properties": {"tags": ["attention"], "problem.severity": _GITHUB[rule.severity]},
    }


def unknown_descriptor(code: str, name: str) -> dict[str, Any]:
    """Return what can be said of a rule that the table doesn't have."""
    return {"id": code, "name": name or code, "shortDescription": {"text": name or code}}


def _parts(rule: Rule) -> list[tuple[str, str]]:
    """Return the paragraphs of a rule's help, those that it has."""
    parts = [
        ("What it is", rule.what),
        ("Why it matters", rule.why),
        ("How it is proved", rule.proof),
        ("Fix", rule.fix),
        ("What it can't tell", rule.limits),
    ]
    return [(title, _one_line(text)) for title, text in parts if text.strip()]


def _text(rule: Rule) -> Iterator[str]:
    for title, text in _parts(rule):
        yield f"{title}: {text}"
    if rule.sources:
        yield f"Sources: {', '.join(rule.sources)}"


def _markdown(rule: Rule) -> Iterator[str]:
    yield f"# {rule.code} {rule.name}"
    for title, text in _parts(rule):
        yield f"**{title}.** {text}"
    for title, code in (("Bad", rule.bad), ("Good", rule.good)):
        yield f"## {title}\n\n```python\n{code.strip()}\n```"
    if rule.sources:
        yield "## Sources\n\n" + "\n".join(f"- <{address}>" for address in rule.sources)


def _one_line(text: str) -> str:
    return " ".join(text.split())
