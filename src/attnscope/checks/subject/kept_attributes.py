"""Attributes that a forward fills and keeps, and what a constructor gives them before."""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnscope.calls.source import Source
from attnscope.checks.subject.libraries import is_of_library

__all__ = ["Kept", "kept_attributes"]

_MISSING = object()
_CONSTRUCTORS = frozenset({"__init__", "__setstate__", "reset", "reset_parameters", "_reset"})
_FILLS = frozenset({"append", "update", "setdefault", "extend"})


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """One attribute of a module. source: the line that decides whether it is filled."""

    owner: nn.Module
    name: str
    start: Any
    source: Source | None

    def reset(self) -> None:
        """Give it what its constructor gives it."""
        if self.start is not _MISSING:
            setattr(self.owner, self.name, copy.copy(self.start))
        elif hasattr(self.owner, self.name):
            delattr(self.owner, self.name)


def kept_attributes(model: nn.Module) -> Iterator[Kept]:
    """Iterate over what the own code of modules fills outside of a constructor.

    Only what starts as nothing: None, an empty container, False, or no attribute at all.
    """
    known: dict[type, list[tuple[str, Any, Source | None]]] = {}
    for module in model.modules():
        if is_of_library(module):
            continue
        kind = type(module)
        if kind not in known:
            known[kind] = list(_of_class(kind))
        yield from (Kept(module, name, start, source) for name, start, source in known[kind])


def _of_class(kind: type) -> Iterator[tuple[str, Any, Source | None]]:
    try:
        lines, first = inspect.getsourcelines(kind)
        tree = ast.parse(textwrap.dedent("".join(lines))).body[0]
        file = inspect.getsourcefile(kind) or ""
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    starts: dict[str, Any] = {}
    for function in functions:
        if function.name in _CONSTRUCTORS:
            starts |= {n: v for node in ast.walk(function) for n, v in _started(node)}
    done: set[str] = set()
    for function in (each for each in functions if each.name not in _CONSTRUCTORS):
        for name, line in _filled_in(function):
            start = starts.get(name, _MISSING if _asks(function, name) else ...)
            if start is ... or name in done:
                continue
            done.add(name)
            at = first - 1 + line
            text = linecache.getline(file, at).strip()
            yield name, start, Source(file, at, f"{kind.__name__}.{function.name}", text)


def _filled_in(function: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """Iterate over the attributes that a function fills, each with the line that decides so."""
    for node in ast.walk(function):
        for name in _filled(node):
            yield name, _deciding(function, node, name)


def _started(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Iterate over attributes that a statement sets, with what it is; `...`: something."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield target.attr, _nothing(node.value)
    call = node if isinstance(node, ast.Call) and len(node.args) > 1 else None
    if call is not None and getattr(call.func, "attr", "") == "register_buffer":
        yield getattr(call.args[0], "value", ""), _nothing(call.args[1])


def _nothing(value: ast.expr) -> Any:
    """Return None, False or an empty container; `...`, where it is anything else."""
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        made: dict[str, object] = {"dict": {}, "list": [], "set": set()}
        return made.get(getattr(value.func, "id", ""), ...)
    try:
        known = ast.literal_eval(value)
    except (ValueError, TypeError):
        return ...
    return known if known is None or known is False or known in ({}, []) else ...


def _filled(node: ast.AST) -> Iterator[str]:
    """Iterate over the attributes of `self` that a statement fills."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                inner = each.value if isinstance(each, ast.Subscript) else each
                if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name):
                    yield inner.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if node.func.attr in _FILLS and isinstance(owner, ast.Attribute):
            yield owner.attr
        elif node.func.attr == "register_buffer" and node.args:
            yield getattr(node.args[0], "value", "")


def _asks(function: ast.FunctionDef, name: str) -> bool:
    """Return whether a function asks whether an attribute is there."""
    return any(isinstance(each, ast.Constant) and each.value == name for each in ast.walk(function))


def _deciding(function: ast.FunctionDef, node: ast.AST, name: str) -> int:
    """Return the line of the innermost condition around it that speaks of the attribute."""
    line = getattr(node, "lineno", 0)
    around = [
        each.lineno
        for each in ast.walk(function)
        if isinstance(each, ast.If)
        and each.lineno <= line <= (each.end_lineno or 0)
        and name in ast.unparse(each.test)
    ]
    return max(around, default=line)
