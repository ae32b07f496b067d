"""Who leaves the base of a table at its default: the line that calls what makes it."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from attnscope.calls.source import Source
from attnscope.checks.statements import enclosing, first_where, statement_at

__all__ = ["leaves_out", "line_that_leaves_out"]

_SAME = 1e-2
_POWERS = frozenset("pow power log exp".split())

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def line_that_leaves_out(run: Any, source: Source, base: float) -> Source | None:
    """Return the call that leaves a parameter of powers out, whose default is that base.

    source: a line of the function that makes the table. None: its base is no such parameter, or
    everybody hands it on.
    """
    around = list(enclosing(source.file, source.line))
    function = next((each for each in around if isinstance(each, _Function)), None)
    if function is None:
        return None
    owner = next((each for each in around if isinstance(each, ast.ClassDef)), None)
    builds = function.name == "__init__" and owner is not None
    name = owner.name if owner is not None and builds else function.name
    bound = owner is not None  # the first parameter is the object itself
    raised = _raised_to_powers(function)
    for parameter, at in _defaults(function, base):
        if parameter in raised:
            return first_where(run, partial(_leaves, name=name, parameter=parameter, at=at - bound))
    return None


def leaves_out(source: Source, caller: Source) -> bool:
    """Return whether a caller leaves a parameter at its default, which a line of a function reads.

    source: the line; caller: that which calls the function.
    """
    around = list(enclosing(source.file, source.line))
    function = next((each for each in around if isinstance(each, _Function)), None)
    read, call = (statement_at(each.file, each.line) for each in (source, caller))
    if function is None or read is None or call is None:
        return False
    names = {each.id for each in ast.walk(read) if isinstance(each, ast.Name)}
    bound = any(isinstance(each, ast.ClassDef) for each in around)
    return any(
        parameter in names and _leaves(call, name=function.name, parameter=parameter, at=at - bound)
        for parameter, at, _ in _with_default(function)
    )


def _defaults(function: _Function, base: float) -> Iterator[tuple[str, int]]:
    """Iterate over the parameters with that default, and their places among the positional ones."""
    for parameter, at, default in _with_default(function):
        if _is_number(default, base):
            yield parameter, at


def _with_default(function: _Function) -> Iterator[tuple[str, int, ast.expr]]:
    """Iterate over the parameters that have a default, their places, and the default."""
    plain, given = function.args.args, function.args.defaults
    for at, default in enumerate(given, start=len(plain) - len(given)):
        yield plain[at].arg, at, default
    for each, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if value is not None:
            yield each.arg, len(plain) + 1, value


def _is_number(node: ast.expr, wanted: float) -> bool:
    known = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return known and math.isclose(node.value, wanted, rel_tol=_SAME)  # type: ignore[attr-defined]


def _raised_to_powers(function: _Function) -> set[str]:
    """Return the names that stand in powers, exponentials or logarithms."""
    nodes = [
        each
        for each in ast.walk(function)
        if (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Pow))
        or (isinstance(each, ast.Call) and _called(each) in _POWERS)
    ]
    return {n.id for each in nodes for n in ast.walk(each) if isinstance(n, ast.Name)}


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _leaves(node: ast.AST, *, name: str, parameter: str, at: int) -> bool:
    """Return whether a statement calls a function without handing a parameter on."""
    return any(
        isinstance(each, ast.Call)
        and _called(each) == name
        and len(each.args) <= at
        and not any(isinstance(argument, ast.Starred) for argument in each.args)
        and not any(keyword.arg in {parameter, None} for keyword in each.keywords)
        for each in ast.walk(node)
    )
