"""Who is at fault where the same lines serve what is right and what is wrong: whoever uses them.

That is the line that builds a layer, where it was built with another option than its like; the line
that calls it, in the forward of the module that both belong to; or the line that calls a function
that both run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

import torch
from torch import nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.caller import line_in_common_owner
from attnscope.checks.definitions import defined
from attnscope.checks.lines import at_line, is_installed
from attnscope.checks.masking.frames import Frame, frames_at
from attnscope.checks.statements import class_of, first_where, statement_at
from attnscope.checks.subject.subject import Subject

__all__ = ["is_option", "line_of_building", "line_of_misuse", "line_of_user"]

_PLAIN = (bool, int, float, str, type(None))


def line_of_user(
    subject: Subject,
    path: str,
    operation: Operation | None,
    right: Sequence[tuple[str, Operation | None]],
) -> Source | None:
    """Return the line that uses shared lines wrongly; None: nothing tells who that is.

    path, operation: the module of a call at fault, and an operation of it; right: the same of calls
    that run the same lines, and in which nothing is wrong.
    """
    paths = [each for each, _ in right]
    return (
        _built_otherwise(subject, path, paths)
        or line_in_common_owner(subject, path, paths)
        or _called_otherwise(subject, operation, [each for _, each in right])
    )


def line_of_misuse(subject: Subject, made: Operation) -> Source | None:
    """Return the line that hands the wrong thing to a function which makes right masks for others.

    None: what it makes elsewhere in the run is none that tells real tokens from padding.
    """
    right = [
        operation
        for operation in subject.base.tape.operations
        if operation is not made
        and (operation.name, operation.source) == (made.name, made.source)
        and _tells_padding(subject, operation)
    ]
    return _called_otherwise(subject, made, right) if right else None


def _tells_padding(subject: Subject, operation: Operation) -> bool:
    made = subject.base.tape.tensors[operation.defines[0]].detach().cpu() != 0
    reals = (each.real(subject.given).cpu() for each in subject.roles.padding if each.given)
    return any(torch.equal(made, real) or torch.equal(made, ~real) for real in reals)


def _built_otherwise(subject: Subject, path: str, right: Iterable[str]) -> Source | None:
    """Return the line that builds a layer with another option than all of its like that are right.

    An option is an attribute that is a boolean, or nothing here and something there, and that the
    layer's own code reads.
    """
    own = path.split(".")
    for size in range(len(own), 0, -1):
        module, others = subject.module(".".join(own[:size])), []
        for each in right:
            other = subject.module(".".join(each.split(".")[:size]))
            others += [other] if other is not None and type(other) is type(module) else []
        if module is None or not others or any(other is module for other in others):
            continue
        if any(_is_told_otherwise(module, name, others) for name in vars(module)):
            return line_of_building(subject, ".".join(own[:size]))
    return None


def _is_told_otherwise(module: nn.Module, name: str, others: Iterable[nn.Module]) -> bool:
    value = vars(module)[name]
    theirs = [vars(other).get(name, value) for other in others]
    if not all(isinstance(each, _PLAIN) for each in (value, *theirs)):
        return False
    switches = isinstance(value, bool) or any((each is None) != (value is None) for each in theirs)
    return switches and all(each != value for each in theirs) and is_option(module, name)


def is_option(module: nn.Module, name: str) -> bool:
    """Return whether the module's own code reads an attribute outside of its constructor."""
    option = name != "training" and not name.startswith("_")
    place = class_of(type(module)) if option else None
    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
        for function in (place[1].body if place is not None else ())
        if isinstance(function, ast.FunctionDef) and function.name != "__init__"
        for node in ast.walk(function)
    )


def line_of_building(subject: Subject, path: str) -> Source | None:
    """Return the line that builds a module: in a list, that of its item, or of what appends it."""
    if subject.model is None:
        return None
    line, (owner, _, name) = defined(subject.model, path), path.rpartition(".")
    if line is None or not name.isdigit():
        return line
    held = owner.rpartition(".")[2]
    appended = first_where(subject.model, lambda node: _appends(node, held))
    return appended or _item(line, int(name)) or line


def _appends(node: ast.AST, name: str) -> bool:
    """Return whether a statement is `self.name.append(…)`."""
    call = node.value if isinstance(node, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    holder = function.value if isinstance(function, ast.Attribute) else None
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "append"
        and getattr(holder, "attr", None) == name
    )


def _item(line: Source, at: int) -> Source | None:
    """Return the line of an item of a list that a statement writes out."""
    statement = statement_at(line.file, line.line)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.List) and len(node.elts) > at:
            return at_line(line, node.elts[at].lineno)
    return None


def _called_otherwise(
    subject: Subject, operation: Operation | None, right: Iterable[Operation | None]
) -> Source | None:
    """Return the innermost line that calls a function which both run, and not at the same line."""
    frames = frames_at(subject, operation) if operation is not None else ()
    found = [
        frame
        for other in right
        if other is not None and (frame := _parting(frames, frames_at(subject, other))) is not None
    ]
    return found[0].source() if found else None


def _parting(frames: Sequence[Frame], others: Sequence[Frame]) -> Frame | None:
    for frame, other in zip(frames, others, strict=False):
        if frame.code is not other.code:
            return None
        if frame.line != other.line:
            return frame if frame.own and not is_installed(frame.file) else None
    return None
