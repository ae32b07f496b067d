"""The line that computes a table of positions, where it was made before the run."""

from __future__ import annotations

import ast
import linecache

from attnscope.calls.source import Source
from attnscope.checks.statements import enclosing, first_where, last_where, mentions, statements
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_table", "says_ten_thousand"]

_HALVES = ("bfloat16", "float16", "half")
_COUNTS = ("arange", "range", "linspace")


def says_ten_thousand(subject: Subject) -> bool:
    """Return whether the model's own code names the usual base, or its logarithm."""
    return any(
        isinstance(each, ast.Constant) and each.value in (10000, 1e4)
        for _, node in statements(subject.run)
        for each in ast.walk(node)
    )


def line_of_table(subject: Subject, kind: str) -> Source | None:
    """Return the statement of the author's code that makes a table wrong in that way."""
    if kind == "pairs":
        return first_where(
            subject.run, lambda n: mentions(n, "sin", "cos") and _is_power(n)
        ) or first_where(subject.run, lambda n: mentions(n, "cos"))
    if kind == "no cosine":
        return _last_sine(subject)
    if kind == "precision":
        return _line_of_cast(subject) or first_where(
            subject.run,
            lambda n: mentions(n, *_COUNTS) and not _is_power(n) and not mentions(n, "Embedding"),
        )
    if kind == "slopes":
        return first_where(
            subject.run, lambda n: _is_power(n) and mentions(n, *_COUNTS)
        ) or first_where(subject.run, lambda n: _is_power(n) and not mentions(n, "softmax"))
    return first_where(
        subject.run, lambda n: _is_power(n) and (mentions(n, *_COUNTS) or mentions(n, "log"))
    ) or first_where(subject.run, _is_power)


def _line_of_cast(subject: Subject) -> Source | None:
    """Return the first line that names half precision in a function of sines and cosines."""
    lines = [
        (file, getattr(node, "lineno", 0))
        for file, node in statements(subject.run)
        if mentions(node, *_HALVES)
    ]
    for file, line in sorted(lines):
        around = enclosing(file, line)
        function = next((each for each in around if isinstance(each, ast.FunctionDef)), None)
        if function is not None and mentions(function, "sin", "cos"):
            text = linecache.getline(file, line).strip()
            return Source(file, line, function.name, text)
    return None


def _last_sine(subject: Subject) -> Source | None:
    return last_where(subject.run, lambda n: mentions(n, "sin"))


def _is_power(node: ast.AST) -> bool:
    """Return whether a statement takes a power or an exponential."""
    return any(
        (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Pow) and not _is_root(each))
        or (
            isinstance(each, ast.Call)
            and getattr(each.func, "attr", getattr(each.func, "id", ""))
            in {"pow", "exp", "power", "exp2"}
        )
        for each in ast.walk(node)
    )


def _is_root(power: ast.BinOp) -> bool:
    """Return whether a power is a square or a root, as scales have it."""
    exponent = power.right
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return isinstance(exponent, ast.Constant) and exponent.value in (0.5, 2, 0.25)
