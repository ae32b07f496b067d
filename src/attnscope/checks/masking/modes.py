"""What is done in training alone: the condition that keeps a mask from the other mode."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from attnscope.calls.source import Source
from attnscope.checks.lines import at_line, is_installed
from attnscope.checks.masking.frames import Frame
from attnscope.checks.statements import enclosing, statement_at

__all__ = ["line_of_mode"]


def line_of_mode(frames: Iterable[Frame]) -> Source | None:
    """Return the line that asks for the training mode, and gives a call its mask in that one alone.

    That is an `if` whose body sets a name that the call reads, or a choice among its arguments;
    frames: the functions around the call, innermost first.
    """
    for frame in frames:
        if not frame.own or is_installed(frame.file):
            continue
        source = frame.source()
        statement = statement_at(frame.file, frame.line)
        if statement is None:
            continue
        if any(isinstance(each, ast.IfExp) and _gives(each) for each in ast.walk(statement)):
            return source
        read = set(_names(statement, ast.Load))
        for condition in _conditions(source):
            if not read.isdisjoint(_set_by(condition)):
                return at_line(source, condition.lineno)
    return None


def _conditions(source: Source) -> Iterator[ast.If]:
    """Iterate over what the function around a line does in training alone, before that line."""
    around = enclosing(source.file, source.line)
    function = next((each for each in around if isinstance(each, ast.FunctionDef)), None)
    for node in ast.walk(function) if function is not None else ():
        if not isinstance(node, ast.If) or node.orelse or not _asks(node.test):
            continue
        if (node.end_lineno or node.lineno) < source.line:
            yield node


def _set_by(condition: ast.If) -> set[str]:
    return {name for each in condition.body for name in _names(each, ast.Store)}


def _names(node: ast.AST, context: type[ast.expr_context]) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, context):
            yield each.id


def _gives(choice: ast.IfExp) -> bool:
    """Return whether a choice gives something in training, and nothing in the other mode."""
    other = choice.orelse
    return _asks(choice.test) and isinstance(other, ast.Constant) and other.value is None


def _asks(test: ast.expr) -> bool:
    """Return whether a condition is that of the training mode."""
    return any(
        isinstance(each, ast.Attribute) and each.attr == "training" for each in ast.walk(test)
    )
