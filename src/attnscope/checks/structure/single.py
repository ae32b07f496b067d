"""A softmax over an axis of one entry, where a query has several keys."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.subject.subject import Subject

__all__ = ["OverSingle", "over_single_query"]

_NAMES = frozenset("softmax softmin log_softmax".split())


@dataclass(frozen=True, slots=True)
class OverSingle:
    """The softmax, the axis that it runs over, and the sizes of its scores."""

    axis: int
    shape: tuple[int, ...]
    source: Source


def over_single_query(subject: Subject, call: Call) -> OverSingle | None:
    """Return the softmax of a call that runs over one entry, its only query or head.

    The operand has several entries along another axis, the keys, so that each weight is 1.
    """
    course = course_of(subject, call)
    if course is None or call.keys < 2:
        return None
    for operation in course.main:
        scores = _scores_of(subject, operation)
        axis = _axis(operation, scores) if scores is not None else None
        if scores is None or axis is None or scores.shape[axis] != 1:
            continue
        if call.keys in scores.shape:
            return OverSingle(axis, tuple(scores.shape), course.line(operation))
    return None


def _scores_of(subject: Subject, operation: Operation) -> Tensor | None:
    if operation.name not in _NAMES:
        return None
    first = next(operation.values(), None)
    return subject.base.tape.tensors[first] if first is not None else None


def _axis(operation: Operation, scores: Tensor) -> int | None:
    """Return the axis that was asked for, counted from the front."""
    given = operation.kwargs.get("dim", operation.args[1] if len(operation.args) > 1 else None)
    return int(given) % scores.dim() if isinstance(given, int) and scores.dim() else None
