"""Where, in the author's own file, the index that a line uses was worked out."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

from attnscope.calls.source import Source

__all__ = ["is_returned", "line_of_argument", "line_of_index", "line_of_return", "renames"]


def line_of_index(source: Source) -> Source:
    """Return the line that assigns the variable which a line indexes with; the line itself, else.

    Several indices: that which was assigned last. A loop's own variable is no assignment.
    """
    tree = _tree(source.file)
    function = _around(tree, source.line) if tree is not None else None
    if function is None:
        return source
    names = {
        name.id
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript) and _covers(node, source.line)
        for name in ast.walk(node.slice)
        if isinstance(name, ast.Name)
    }
    return _last_assigned(function, names, source)


def line_of_argument(source: Source) -> Source:
    """Return the line that assigns the variable which a line hands on, as to `register_buffer`."""
    tree = _tree(source.file)
    function = _around(tree, source.line) if tree is not None else None
    if function is None:
        return source
    names = {
        each.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _covers(node, source.line)
        for each in node.args
        if isinstance(each, ast.Name)
    }
    return _last_assigned(function, names, source)


def _last_assigned(function: ast.AST, names: set[str], source: Source) -> Source:
    lines = [
        node.lineno
        for node in ast.walk(function)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        and node.lineno < source.line
        and any(
            isinstance(target, ast.Name) and target.id in names
            for target in ast.walk(node)
            if isinstance(getattr(target, "ctx", None), ast.Store)
        )
    ]
    if not lines:
        return source
    return _at(source, max(lines))


def is_returned(source: Source) -> bool:
    """Return whether the statement of a line hands its result out of its function."""
    tree = _tree(source.file)
    function = _around(tree, source.line) if tree is not None else None
    returns = ast.walk(function) if function is not None else ()
    return any(isinstance(node, ast.Return) and _covers(node, source.line) for node in returns)


def line_of_return(source: Source) -> Source:
    """Return the line that hands out what a line made: a `return`, or what it was renamed at."""
    tree = _tree(source.file)
    function = _around(tree, source.line) if tree is not None else None
    if function is None:
        return source
    made = _assigned_at(function, source.line)
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or node.value is None or node.lineno < source.line:
            continue
        parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        further = {name for part in parts[1:] or parts for name in _names(part)}
        if further & made:
            return _at(source, node.lineno)
        for assign in ast.walk(function):
            if isinstance(assign, ast.Assign) and source.line < assign.lineno < node.lineno:
                targets = {name for target in assign.targets for name in _names(target)}
                if targets & further and _names(assign.value) & made:
                    return _at(source, assign.lineno)
    return source


def renames(source: Source, other: Source) -> bool:
    """Return whether a line puts something else under a name that another line gave before it."""
    tree = _tree(source.file)
    function = _around(tree, source.line) if tree is not None else None
    if function is None or other.file != source.file or other.line >= source.line:
        return False
    return bool(_assigned_at(function, source.line) & _assigned_at(function, other.line))


def _assigned_at(function: ast.AST, line: int) -> set[str]:
    return {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _covers(node, line)
        for target in node.targets
        for name in _names(target)
    }


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _at(source: Source, line: int) -> Source:
    text = linecache.getline(source.file, line).strip()
    return Source(source.file, line, source.function, text)


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    text = "".join(linecache.getlines(file))
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError):
        return None


def _around(tree: ast.Module, line: int) -> ast.AST | None:
    """Return the innermost function around a line."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and _covers(node, line)
    ]
    return max(found, key=lambda node: node.lineno, default=None)


def _covers(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
    return first <= line <= last
