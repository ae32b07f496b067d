"""Softmaxes of a run: which are part of no recorded call, and over which axis they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.course import course_of
from attnscope.checks.subject.subject import Subject

__all__ = ["SOFTMAXES", "axis_of_softmax", "operand_of", "softmaxes_outside"]

SOFTMAXES = frozenset("softmax softmin".split())


def softmaxes_outside(subject: Subject) -> Iterator[Operation]:
    """Iterate over the softmaxes of the base run that are part of no recorded call."""
    inside = {
        id(operation)
        for call in subject.calls
        if (course := course_of(subject, call)) is not None
        for operation in (*course.main, *course.aside)
    }
    for operation in subject.base.tape.operations:
        if operation.name in SOFTMAXES and id(operation) not in inside:
            yield operation


def operand_of(subject: Subject, operation: Operation) -> Tensor | None:
    """Return what a softmax normalises."""
    first = next(operation.values(), None)
    return None if first is None else subject.base.tape.tensors[first]


def axis_of_softmax(subject: Subject, operation: Operation) -> int | None:
    """Return the axis that a softmax runs over, counted from the front."""
    tensor = operand_of(subject, operation)
    if tensor is None:
        return None
    given: Any = operation.kwargs.get("dim")
    if given is None and len(operation.args) > 1 and isinstance(operation.args[1], int):
        given = operation.args[1]
    if given is None:
        given = 0 if tensor.dim() in {0, 1, 3} else 1  # what torch takes where none is given
    return int(given) % max(tensor.dim(), 1)
