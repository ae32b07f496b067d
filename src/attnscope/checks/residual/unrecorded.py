"""What an author would call the cut: `detach`, or the `no_grad` around an operation."""

from __future__ import annotations

import ast

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.statements import enclosing, mentions
from attnscope.checks.subject.subject import Subject

__all__ = ["cause_of"]

_SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


def cause_of(subject: Subject, cut: Operation) -> tuple[str, Source | None]:
    """Return what cuts, and its line: in the function that holds the switch, where there is one."""
    if subject.base.tape.tensors[cut.defines[0]].is_floating_point():
        for frame in frames_at(subject, cut):
            for node in enclosing(frame.file, frame.line) if frame.own else ():
                name = _switch_of(node)
                if name is not None:
                    return name, frame.source()
    return cut.name, cut.source


def _switch_of(node: ast.AST) -> str | None:
    """Return what a `with` or a decorator switches recording off by."""
    switches: list[ast.expr] = []
    if isinstance(node, ast.With):
        switches = [item.context_expr for item in node.items]
    elif isinstance(node, ast.FunctionDef):
        switches = node.decorator_list
    return next((n for n in _SWITCHES if any(mentions(each, n) for each in switches)), None)
