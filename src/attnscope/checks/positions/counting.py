"""The line that counts positions, padding or not."""

from __future__ import annotations

import torch
from torch import nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.lines import is_installed
from attnscope.checks.masking.written import line_of_counts
from attnscope.checks.operations import ADDS
from attnscope.checks.positions.constants import varies
from attnscope.checks.residual.graph import behind, contents
from attnscope.checks.statements import calls, first_where
from attnscope.checks.subject.libraries import is_of_model_library
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_counting"]


def line_of_counting(subject: Subject) -> Source | None:
    """Return where positions are worked out or looked up; of a library's, where it is called."""
    adds = _adding(subject)
    if adds is None:
        return None
    added, table = adds
    made = behind(subject.base.tape, [table])
    counted = [op for op in made if _combines(subject, op)]
    laid_out = next((op for op in made if _lays_out(subject, op)), None)
    source = (counted[-1] if counted else laid_out or added).source
    if source is not None and is_installed(source.file):
        return _call_of_library(subject) or source
    if source is not None and not counted and laid_out is None:
        looked_up = [op.source for op in made if op.name == "embedding" and op.source is not None]
        found = (line_of_counts(each) for each in (*reversed(looked_up), source))
        return next((each for each in found if each is not None), source)
    return source


def _adding(subject: Subject) -> tuple[Operation, int] | None:
    """Return what adds positions to the tokens, and the value that they are."""
    tape, moving = subject.base.tape, contents(subject)
    received = list(subject.base.located[0].received.values()) if subject.base.located else []
    for operation in behind(tape, received):
        operands = list(dict.fromkeys(operation.values()))
        if operation.name not in ADDS or len(operands) != 2:
            continue
        for table, tokens in (operands, operands[::-1]):
            tensor = tape.tensors[table]
            if table in moving or tokens not in moving or not tensor.is_floating_point():
                continue
            if tensor.dim() < 2 or not any(
                varies(tensor, axis) for axis in range(tensor.dim() - 1)
            ):
                continue
            return operation, table
    return None


def _combines(subject: Subject, operation: Operation) -> bool:
    """Return whether an operation makes whole positions of two other things."""
    tensors = subject.base.tape.tensors
    made = tensors[operation.defines[0]] if operation.defines else None
    whole = made is not None and not made.is_floating_point() and not made.is_complex()
    looks = operation.name == "getitem" or operation.name.endswith("_as")
    return whole and len(set(operation.values())) > 1 and not looks


def _lays_out(subject: Subject, operation: Operation) -> bool:
    """Return whether an operation gives whole numbers that were counted up another shape."""
    if operation.name not in LAYOUT or not operation.defines:
        return False
    made = subject.base.tape.tensors[operation.defines[0]]
    return not made.is_floating_point() and not made.is_complex() and made.dtype != torch.bool


def _call_of_library(subject: Subject) -> Source | None:
    """Return the author's line that calls a module of a library."""
    if subject.model is None:
        return None
    names = {
        name.rpartition(".")[2]
        for name, module in subject.model.named_modules()
        if name
        and is_of_model_library(module)
        and not is_of_model_library(_parent(subject.model, name))
    }
    return first_where(subject.run, lambda node: calls(node, names))


def _parent(model: nn.Module, path: str) -> nn.Module:
    return model.get_submodule(path.rpartition(".")[0])
