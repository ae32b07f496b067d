"""Parameters of the attention that reach the output and get no gradient, or never will."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import Tensor, nn

from attnscope.calls.program import Operation
from attnscope.checks.probes.backward import Backward, backward
from attnscope.checks.residual.cutting import Cut
from attnscope.checks.residual.graph import needed_by_outputs, reached
from attnscope.checks.residual.idle import attending, own_parameters
from attnscope.checks.residual.stream import CONTRACTIONS, stripped
from attnscope.checks.subject.subject import Subject

__all__ = ["dead_products", "starved_parameters"]


_ON_PURPOSE = frozenset({"detach", "detach_", "data"})
"""What is detached by name was meant to be: targets, copies to look at."""

_SHAPE_ALONE = re.compile(r"(_like$|^new_|^size$|^shape$|^numel$|^dim$)")


def starved_parameters(subject: Subject) -> Iterator[Cut]:
    """Iterate over what cuts parameters off, in modules of which others get a gradient."""
    model = subject.model
    if model is None:
        return
    found, needed = backward(subject), needed_by_outputs(subject)
    values = {name: value for value, name in subject.base.parameters.items()}
    for owner in attending(subject, model):
        names = [name for name in own_parameters(model, owner) if name in found.parameters]
        fed = max((_size(found, name) for name in names), default=0.0)
        starved = [
            name for name in names if found.parameters[name] is None and values.get(name) in needed
        ]
        if not starved or fed == 0.0:
            continue
        cut = _cut(subject, values[starved[0]], needed)
        if cut is not None and cut.name not in _ON_PURPOSE:
            yield Cut(cut.name, cut.source, tuple(starved), fed)


def _cut(subject: Subject, value: int, needed: set[int]) -> Operation | None:
    """Return the first operation on the way to the outputs that autograd doesn't go through.

    None: there is none, or it makes indices, which choose what is attended to.
    """
    tape, alive = subject.base.tape, {value}
    for operation in tape.operations:
        if alive.isdisjoint(operation.values()) or needed.isdisjoint(operation.defines):
            continue
        if _SHAPE_ALONE.search(operation.name):
            continue
        if not any(tape.tensors[v].requires_grad for v in operation.defines):
            return operation if _is_number(tape.tensors[operation.defines[0]]) else None
        alive.update(operation.defines)
    return None


def _is_number(result: Tensor) -> bool:
    return result.is_floating_point() or result.is_complex()


def dead_products(subject: Subject) -> Iterator[Cut]:
    """Iterate over products of two parameters that are all zero, and keep each other there."""
    model = subject.model
    if model is None:
        return
    found, tape = backward(subject), subject.base.tape
    values = {name: value for value, name in subject.base.parameters.items()}
    fed = max((_size(found, name) for name in found.parameters), default=0.0)
    for owner in attending(subject, model):
        own = [name for name in own_parameters(model, owner) if name in values]
        names = [name for name in own if _is_dead(model, found, name)]
        for first in names:
            after = reached(tape, [values[first]])
            for operation in tape.operations if names[1:] else ():
                others = [n for n in names if n != first and _joins(subject, operation, values[n])]
                if operation.name not in CONTRACTIONS or not others or fed == 0.0:
                    continue
                if not after.isdisjoint(operation.values()):
                    yield Cut(operation.name, operation.source, (first, others[0]), fed)
                    break


def _joins(subject: Subject, operation: Operation, value: int) -> bool:
    """Return whether an operation takes a parameter, transposed perhaps."""
    tape = subject.base.tape
    return any(stripped(tape, v, frozenset()) == value for v in operation.values())


def _is_dead(model: nn.Module, found: Backward, name: str) -> bool:
    """Return whether a matrix is all zero, and so is its gradient."""
    gradient = found.parameters.get(name)
    parameter = model.get_parameter(name)
    if gradient is None or parameter.dim() < 2 or bool(parameter.detach().any()):
        return False
    return not bool(gradient.detach().any())


def _size(found: Backward, name: str) -> float:
    gradient: Tensor | None = found.parameters.get(name)
    return 0.0 if gradient is None or not gradient.numel() else float(gradient.abs().max())
