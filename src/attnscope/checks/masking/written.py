"""Where the author's text makes a mask that the run only finds: in a constructor, or in a cache.

No operation of the run has the line. The text is followed from the statement that keeps the mask,
or that asks for it, through local names and functions of the author's own, to what says yes and no:
a triangle or a comparison.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from torch import Tensor, nn

from attnscope.calls.source import Source
from attnscope.checks.definitions import defined
from attnscope.checks.lines import at_line
from attnscope.checks.statements import nodes_of, statement_at
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_asked", "line_of_counts", "line_of_held"]

_TRIANGLES = frozenset("tril triu tril_ triu_ generate_square_subsequent_mask".split())
_COMPARED = frozenset("lt le gt ge eq ne less greater less_equal greater_equal isin".split())
_RANGES = frozenset("arange range linspace".split())

_Wanted: TypeAlias = Callable[[ast.AST], Iterator[ast.expr]]


def line_of_held(subject: Subject, value: int) -> Source | None:
    """Return the line that makes what a module was built with; None: no module holds it.

    That is the triangle or the comparison that says yes and no, else the assignment.
    """
    if subject.model is None:
        return None
    held = subject.base.tape.tensors[value]
    path = subject.base.parameters.get(value) or _attribute_of(subject.model, held)
    start = defined(subject.model, path) if path is not None else None
    return (_followed(start, _makings) or start) if start is not None else None


def line_of_asked(source: Source) -> Source | None:
    """Return the line in a function, called by a statement, that makes the mask it returns."""
    return _followed(source, _makings, own=False)


def line_of_counts(source: Source) -> Source | None:
    """Return the line that counts what a statement looks up: that of a range of numbers."""
    return _followed(source, _ranges)


def _attribute_of(model: nn.Module, tensor: Tensor) -> str | None:
    """Return the dotted path of a plain attribute that is that very tensor."""
    for name, module in model.named_modules():
        for attribute, each in vars(module).items():
            if each is tensor:
                return f"{name}.{attribute}".lstrip(".")
    return None


def _followed(source: Source, wanted: _Wanted, *, own: bool = True) -> Source | None:
    """Return the line that a statement gets what is wanted from; own: it may be its own."""
    statement = statement_at(source.file, source.line)
    if statement is None:
        return None
    text = _Text(source.file, wanted)
    node = text.making_of(statement, text.function_at(source.line), own=own)
    if node is None:
        return None
    function = text.function_at(node.lineno)
    found = at_line(source, node.lineno)
    return replace(found, function=function.name) if function is not None else found


class _Text:
    """A file of the author's."""

    def __init__(self, file: str, wanted: _Wanted) -> None:
        self.wanted, self.followed = wanted, set[int]()
        self.functions = [each for each in nodes_of(file) if isinstance(each, ast.FunctionDef)]

    def function_at(self, line: int) -> ast.FunctionDef | None:
        """Return the innermost function around a line."""
        around = [each for each in self.functions if _spans(each, line)]
        return max(around, key=lambda each: each.lineno, default=None)

    def making_of(
        self,
        node: ast.AST,
        function: ast.FunctionDef | None,
        *,
        own: bool = True,
    ) -> ast.expr | None:
        """Return what is wanted in an expression, or in what it is made of."""
        if id(node) in self.followed:
            return None
        self.followed.add(id(node))
        behind = self._behind(node, function)
        here = next(self.wanted(node), None) if own else None
        if here is not None and (behind is None or not _is_of_constant(here)):
            return here
        return behind

    def _behind(self, node: ast.AST, function: ast.FunctionDef | None) -> ast.expr | None:
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                made = self._made_by(getattr(each.func, "attr", getattr(each.func, "id", "")))
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and function:
                made = self._assigned(each, function)
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load):
                made = self.kept(each.attr)
            else:
                continue
            if made is not None:
                return made
        return None

    def kept(self, name: str) -> ast.expr | None:
        """Return what makes an attribute of `self`, wherever that is set."""
        for function in self.functions:
            for node in ast.walk(function):
                if not isinstance(node, ast.Assign):
                    continue
                if any(_is_own(target, name) for target in node.targets):
                    made = self.making_of(node.value, function)
                    if made is not None:
                        return made
        return None

    def _made_by(self, name: str) -> ast.expr | None:
        """Return what makes the result of a function of this file."""
        called = next((each for each in self.functions if each.name == name), None)
        if called is None or name in {"forward", "__init__"}:
            return None
        ends = [node for node in ast.walk(called) if isinstance(node, ast.Return) and node.value]
        found = (self.making_of(end, called) for end in reversed(ends))
        return next((each for each in found if each is not None), None)

    def _assigned(self, name: ast.Name, function: ast.FunctionDef) -> ast.expr | None:
        """Return what makes a local name, where it was last given a value before."""
        places = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
            and node.value is not None
            and node.lineno < name.lineno
            and any(_is_name(target, name.id) for target in _targets(node))
        ]
        for place in sorted(places, key=lambda node: -node.lineno):
            made = self.making_of(place, function)
            if made is not None:
                return made
        return None


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _is_name(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))


def _is_own(target: ast.expr, name: str) -> bool:
    holder = target.value if isinstance(target, ast.Attribute) else None
    return getattr(target, "attr", "") == name and getattr(holder, "id", "") == "self"


def _spans(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _makings(node: ast.AST) -> Iterator[ast.expr]:
    """Iterate over the triangles and comparisons in an expression."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            name = getattr(each.func, "attr", getattr(each.func, "id", ""))
            if name in _TRIANGLES | _COMPARED:
                yield each
        elif isinstance(each, ast.Compare) and not any(
            isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in each.ops
        ):
            yield each


def _ranges(node: ast.AST) -> Iterator[ast.expr]:
    """Iterate over the ranges of numbers in an expression."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") in _RANGES:
            yield each


def _is_of_constant(node: ast.expr) -> bool:
    """Return whether something is compared with 0 or 1, which only turns a mask into a boolean."""
    if isinstance(node, ast.Compare):
        others = node.comparators
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _COMPARED:
        others = node.args
    else:
        return False
    return all(isinstance(each, ast.Constant) and each.value in (0, 1) for each in others)
