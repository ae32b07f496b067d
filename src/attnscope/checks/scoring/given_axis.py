"""The axis of a softmax that a function is handed by whoever calls it."""

from __future__ import annotations

import ast
from itertools import pairwise

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.lines import is_installed
from attnscope.checks.masking.frames import Frame, frames_at
from attnscope.checks.statements import statement_at
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_axis"]


def line_of_axis(subject: Subject, softmax: Operation) -> Source | None:
    """Return the line that hands the axis of a softmax to the functions around it.

    None: the axis stands at the softmax itself, or is what a function takes by default.
    """
    found = None
    frames = [frame for frame in frames_at(subject, softmax) if frame.own]
    for frame, caller in pairwise(frames):
        handed = _handed(frame)
        call = _call(caller, frame.name) if handed else None
        if call is None or is_installed(caller.file) or not _hands(call, frame, handed):
            break
        found = caller.source()
    return found


def _handed(frame: Frame) -> set[str]:
    """Return the parameters that stand as an axis at the line where a function stands."""
    statement = statement_at(frame.file, frame.line)
    named = {
        keyword.value.id
        for node in (ast.walk(statement) if statement is not None else ())
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in {"dim", "axis"} and isinstance(keyword.value, ast.Name)
    }
    placed = {
        argument.id
        for node in (ast.walk(statement) if statement is not None else ())
        if isinstance(node, ast.Call)
        for argument in node.args
        if isinstance(argument, ast.Name)
        and isinstance(frame.arguments.get(argument.id), int | tuple)
        and not isinstance(frame.arguments[argument.id], bool)
    }
    return (named | placed) & set(frame.arguments)


def _call(caller: Frame, name: str) -> ast.Call | None:
    statement = statement_at(caller.file, caller.line)
    calls = (
        node
        for node in (ast.walk(statement) if statement is not None else ())
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == name
    )
    return next(calls, None)


def _hands(call: ast.Call, frame: Frame, handed: set[str]) -> bool:
    """Return whether a call gives one of the parameters, rather than leave its default."""
    names = list(frame.arguments)
    given = {*names[: len(call.args)], *(each.arg for each in call.keywords)}
    return not handed.isdisjoint(given)
