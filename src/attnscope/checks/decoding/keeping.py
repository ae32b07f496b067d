"""The line at which an author's code keeps something of the present tokens for later steps."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from functools import lru_cache

from attnscope.calls.source import Source

__all__ = ["condition_of", "line_of_idle", "line_of_keeping", "line_of_state"]

_GROWS = frozenset({"append", "extend", "update", "copy_", "insert"})


def line_of_keeping(near: Source | None) -> Source | None:
    """Return the line of a function (the one around a line) that makes what it hands on as a cache.

    That is the last item of what it returns, or else an attribute of the module that it sets.
    """
    function = _function_around(near) if near is not None else None
    if near is None or function is None:
        return None
    line = _returned(function, near.line) or _set(function)
    if line is None:
        return None
    return Source(near.file, line, function.name, linecache.getline(near.file, line).strip())


def condition_of(line: Source | None) -> Source | None:
    """Return the line of the `if` that a line depends on; None: there is none in its function."""
    function = _function_around(line) if line is not None else None
    if line is None or function is None:
        return None
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.If)
        and node.body[0].lineno <= line.line <= (node.body[-1].end_lineno or 0)
    ]
    inner = max(around, key=lambda node: node.lineno, default=None)
    if inner is None:
        return None
    text = linecache.getline(line.file, inner.lineno).strip()
    return Source(line.file, inner.lineno, function.name, text)


def line_of_state(owner: type, names: set[str], methods: tuple[str, ...]) -> Source | None:
    """Return the line at which the first of some methods sets one of some attributes."""
    for method in methods:
        for file, function in _written(owner, method):
            line = next((at for name, at in _attributes(function) if name in names), None)
            if line is not None:
                return Source(file, line, method, linecache.getline(file, line).strip())
    return None


def line_of_idle(owner: type, methods: tuple[str, ...]) -> Source | None:
    """Return the line at which the first of some methods sets anything else, or begins."""
    for method in methods:
        for file, function in _written(owner, method):
            line = next((at for _, at in _attributes(function)), function.lineno)
            return Source(file, line, method, linecache.getline(file, line).strip())
    return None


def _written(owner: type, method: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Iterate over the method of a class as it stands in its file."""
    code = getattr(inspect.unwrap(getattr(owner, method, owner)), "__code__", None)
    tree = _tree(code.co_filename) if code is not None else None
    for function in ast.walk(tree) if tree is not None else ():
        if not isinstance(function, ast.FunctionDef) or function.name != method or code is None:
            continue
        if min([function.lineno, *(d.lineno for d in function.decorator_list)]) == (
            code.co_firstlineno
        ):
            yield code.co_filename, function


def _returned(function: ast.FunctionDef, after: int) -> int | None:
    """Return the line that makes the last item that a function returns."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Tuple):
            continue
        last = node.value.elts[-1]
        names = {each.id for each in ast.walk(last) if isinstance(each, ast.Name)}
        plain = isinstance(last, ast.Name)
        if not plain and any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(last)):
            return last.lineno  # made where it is returned
        lines = [
            each.lineno
            for each in ast.walk(function)
            if isinstance(each, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id in names for t in each.targets)
        ]
        if plain:
            return max(lines, default=node.lineno)
        return min((line for line in lines if line > after), default=last.lineno)
    return None


def _set(function: ast.FunctionDef) -> int | None:
    return max((line for _, line in _attributes(function)), default=None)


def _attributes(function: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """Iterate over the attributes of `self` that a function sets or lets grow, with the lines."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for each in targets:
                for target in each.elts if isinstance(each, ast.Tuple) else [each]:
                    name = _of_self(target)
                    if name:
                        yield name, node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = _of_self(node.func.value)
            if name and node.func.attr in _GROWS:
                yield name, node.lineno


def _of_self(node: ast.AST) -> str:
    """Return the attribute of `self` that an expression is, or an item of."""
    while isinstance(node, ast.Subscript):
        node = node.value
    own = (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
    return node.attr if own and isinstance(node, ast.Attribute) else ""


def _function_around(near: Source) -> ast.FunctionDef | None:
    tree = _tree(near.file)
    if tree is None:
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= near.line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
