"""The statements of a model's own code, as they stand in its files, libraries left out."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, TypeAlias

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.subject.code import own_classes
from attnscope.checks.subject.libraries import is_of_library

__all__ = [
    "Place",
    "calls",
    "calls_of",
    "class_of",
    "enclosing",
    "file_of",
    "first_of",
    "first_where",
    "keeps",
    "last_of",
    "last_where",
    "mentions",
    "nodes_of",
    "statement_at",
    "statements",
    "texts",
]


Place: TypeAlias = tuple[str, ast.AST]
"""A file, and a node of its syntax tree."""


@lru_cache(maxsize=128)
def _tree_of(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def nodes_of(file: str | None) -> Iterator[ast.AST]:
    """Iterate over the syntax tree of a file; over nothing where it can't be read."""
    return ast.walk(_tree_of(file)) if file is not None else iter(())


def statement_at(file: str, line: int) -> ast.stmt | None:
    """Return the statement that stands at a line and holds no others."""
    for node in nodes_of(file):
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            return node
    return None


def file_of(kind: Any) -> str | None:
    """Return the file that a class or function is written in; None: it is in none."""
    try:
        return inspect.getsourcefile(inspect.unwrap(kind))
    except (TypeError, OSError):
        return None


def _files(run: Any) -> list[str]:
    """Return the files that hold a model's own code, libraries left out."""
    kinds = own_classes(run) if isinstance(run, nn.Module) else [run]
    own = [kind for kind in kinds if not is_of_library(kind)]
    return list(dict.fromkeys(file for kind in own if (file := file_of(kind)) is not None))


def _source(place: Place, function: str) -> Source:
    file, line = place[0], _order(place)[1]
    return Source(file, line, function, linecache.getline(file, line).strip())


def statements(run: Any) -> Iterator[Place]:
    """Iterate over the statements of a model's own code that hold no other statements."""
    for file in _files(run):
        for node in nodes_of(file):
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                yield file, node


def texts(run: Any) -> Iterator[str]:
    """Iterate over the texts that stand in a model's own code, those of conditions included."""
    for file in _files(run):
        for node in nodes_of(file):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def first_of(places: Iterable[Place], function: str = "") -> Source | None:
    """Return the line of the first of some places; function: what it is said to stand in."""
    first = min(places, key=_order, default=None)
    return _source(first, function) if first is not None else None


def last_of(places: Iterable[Place], function: str = "") -> Source | None:
    """Return the line of the last of some places; function: what it is said to stand in."""
    last = max(places, key=_order, default=None)
    return _source(last, function) if last is not None else None


def first_where(run: Any, fits: Callable[[ast.AST], object]) -> Source | None:
    """Return the first such statement of a model's own code."""
    return first_of(place for place in statements(run) if fits(place[1]))


def last_where(run: Any, fits: Callable[[ast.AST], object]) -> Source | None:
    """Return the last such statement of a model's own code."""
    return last_of(place for place in statements(run) if fits(place[1]))


def _order(place: Place) -> tuple[str, int]:
    return place[0], getattr(place[1], "lineno", 0)


def mentions(node: ast.AST, *names: str) -> bool:
    """Return whether one of these is called, or read as a name or an attribute, in a statement."""
    return any(getattr(each, "attr", getattr(each, "id", None)) in names for each in ast.walk(node))


def calls(node: ast.AST, names: Collection[str]) -> list[ast.Call]:
    """Return the calls of functions and methods of these names in a statement."""
    every = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    return [c for c in every if getattr(c.func, "attr", getattr(c.func, "id", "")) in names]


def class_of(kind: type) -> tuple[str, ast.ClassDef] | None:
    """Return the file of a class, and its syntax tree as it stands there."""
    file = file_of(kind)
    for node in nodes_of(file):
        if file is not None and isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            return file, node
    return None


def enclosing(file: str, line: int) -> Iterator[ast.AST]:
    """Iterate over the functions and compound statements of a file around a line, inner first."""
    around = [
        node
        for node in nodes_of(file)
        if isinstance(node, ast.stmt)
        and hasattr(node, "body")
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    yield from sorted(around, key=lambda node: -node.lineno)


def keeps(source: Source, operation: str) -> bool:
    """Return whether the statement of a line puts what an operation gives into an attribute.

    A bare call of an attribute's method may keep it, too, if it isn't the operation itself.
    """
    for node in nodes_of(source.file):
        if getattr(node, "lineno", 0) > source.line or getattr(node, "end_lineno", 0) < source.line:
            continue
        if isinstance(node, ast.Assign):
            return any(_is_attribute(target) for target in node.targets)
        if isinstance(node, ast.AugAssign | ast.AnnAssign):
            return _is_attribute(node.target)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr != operation:
                return _is_attribute(function.value)
    return False


def _is_attribute(node: ast.expr) -> bool:
    return isinstance(node.value if isinstance(node, ast.Subscript) else node, ast.Attribute)


def calls_of(run: Any, function: str) -> Source | None:
    """Return the last line of a model's own code that calls a function or method of that name."""
    if function == "forward":
        return None
    return last_where(run, lambda node: calls(node, {function}))
