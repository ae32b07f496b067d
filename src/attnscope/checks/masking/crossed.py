"""Calls that swap two arguments: `band(size, right, left)` of `def band(size, left, right)`."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.masking.frames import Frame, frames_at
from attnscope.checks.statements import nodes_of
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_crossed"]


def line_of_crossed(subject: Subject, made: Operation) -> Source | None:
    """Return the line that calls the function which makes something, and swaps two arguments.

    They are named like its parameters, each like the other's.
    """
    frames = frames_at(subject, made)
    for inner, outer in itertools.pairwise(frames):
        for call in _calls(outer, inner.name):
            if _is_crossed(call, list(inner.arguments)):
                return outer.source()
    return None


def _calls(frame: Frame, name: str) -> Iterator[ast.Call]:
    """Iterate over the calls of a function at the line where another one stands."""
    for node in nodes_of(frame.file):
        if isinstance(node, ast.Call) and node.lineno <= frame.line <= (node.end_lineno or 0):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called == name:
                yield node


def _is_crossed(call: ast.Call, parameters: list[str]) -> bool:
    given = dict(zip(parameters, map(_name, call.args), strict=False))
    given |= {each.arg: _name(each.value) for each in call.keywords if each.arg is not None}
    return any(
        name != own and name in given and given[name] == own for own, name in given.items() if name
    )


def _name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", ""))).lstrip("_")
