"""Weights that a mask zeroes after the softmax, without dividing by what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.course import HIDING, Course
from attnscope.checks.masking.biases import DEEP
from attnscope.checks.masking.seen import NOTHING, Seen
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Zeroed", "zeroed_after", "zeroed_outside"]

_WHOLE = 1e-6
"""How far from 1 a row's sum may be, in float64, and still be whole."""

_LOST = 1e-3
"""What a row must lose at least: far above what is left of a mask that came before the softmax."""

_DIVISORS = frozenset("div div_ rdiv normalize softmax".split())


@dataclass(frozen=True, slots=True)
class Zeroed:
    """What one operation zeroed: weights, rows that lost some of all rows, and their sums.

    A fill that was meant for scores makes sums far below zero instead.
    """

    operation: Operation
    zeroed: int
    rows: int
    all_rows: int
    least: float
    mean: float


def zeroed_after(seen: Seen) -> Zeroed | None:
    """Return what is zeroed after the softmax of a call; None: nothing, or it is made good."""
    course = seen.course
    if course is None or course.softmax is None or len(course.main) < 3:
        return None
    try:
        return _found(course)
    except UNREADABLE:
        return None


def _found(course: Course) -> Zeroed | None:
    main = list(course.main)
    start = main.index(course.softmax) if course.softmax in main else -1
    between = main[start + 1 : -1] if start >= 0 else []
    candidates = [op for op in between if _may_zero(course, op)]
    if not candidates:
        return None
    last = between[-1].defines[0]
    final = course.tape.run([last], wide=True)[last]
    for operation in candidates:
        before, after = _before(course, operation), operation.defines[0]
        if before is None:
            continue
        held = course.tape.run([before], wide=True)[before]  # apart: one may change the other
        found = _zeroed(operation, held, course.tape.run([after], wide=True)[after])
        if found is not None and not _made_good(course, operation, final, last):
            return found
    return None


def zeroed_outside(subject: Subject) -> Iterator[Zeroed]:
    """Iterate over what is zeroed after the softmax of additive scores."""
    from attnscope.checks.masking.additive import additive_of

    tape = subject.base.tape
    for each in additive_of(subject):
        operation = each.after
        made = each.softmax.defines[0]
        if operation is None or made not in tuple(operation.values()):
            continue
        after = operation.defines[0]
        users = [user.name for value in (made, after) for user in tape.users.get(value, [])]
        if not {"sum", "norm", "normalize"}.isdisjoint(users):
            continue  # divided by what is left
        with contextlib.suppress(*UNREADABLE):
            found = _zeroed(operation, each.weights, tape.run([after], wide=True)[after])
            if found is not None:
                yield found


def _may_zero(course: Course, operation: Operation) -> bool:
    name = operation.name.removesuffix("_")
    if name in {"tril", "triu"}:
        return True
    return operation.name in HIDING and bool(course.joined(operation))


def _before(course: Course, operation: Operation) -> int | None:
    """Return the weights that enter an operation of the main path."""
    joined = set(course.joined(operation))
    return next((value for value in operation.values() if value not in joined), None)


def _zeroed(operation: Operation, before: Tensor, after: Tensor) -> Zeroed | None:
    if before.shape != after.shape or not before.is_floating_point() or not before.dim():
        return None
    for axis in range(before.dim() - 1, max(before.dim() - 3, -1), -1):
        sums = before.sum(axis)
        whole = (sums - 1.0).abs() < _WHOLE
        if before.shape[axis] < 2 or not bool(whole.any()):
            continue
        filled = after <= DEEP
        gone = ((after == 0) | filled) & (before > NOTHING)
        kept = ((after - before).abs() <= _WHOLE) | (after == 0) | filled
        left = after.sum(axis)
        lost = (left < 1 - _LOST) & ((left > 0) | filled.any(axis))
        hit = whole & gone.any(axis) & lost & kept.all(axis)
        if bool(hit.any()):
            return Zeroed(
                operation,
                int((gone & hit.unsqueeze(axis)).sum()),
                int(hit.sum()),
                hit.numel(),
                float(left[hit].min()),
                float(left[hit].mean()),
            )
    return None


def _made_good(course: Course, operation: Operation, final: Tensor, last: int) -> bool:
    """Return whether rows are whole again when they meet v, or something divides by their sum."""
    sums = [final.sum(axis) for axis in range(max(final.dim() - 2, 0), final.dim())]
    whole = [bool((((s - 1.0).abs() < _WHOLE) | (s == 0) | s.isnan()).all()) for s in sums]
    if any(whole):
        return True
    tape = course.tape
    path = {operation.defines[0], last}
    for value in sorted(path):
        for user in tape.users.get(value, []):
            sums_up = user.name in {"sum", "norm", "einsum"} and user is not course.weighing
            if sums_up and _divides(course, user.defines[0]):
                return True
    return False


def _divides(course: Course, value: int, depth: int = 8) -> bool:
    """Return whether a value is divided by a little later."""
    waiting = [(value, depth)]
    while waiting:
        at, left = waiting.pop()
        for user in course.tape.users.get(at, []):
            if user.name in _DIVISORS or user.name in {"reciprocal", "pow"}:
                return True
            if left:
                waiting.append((user.defines[0], left - 1))
    return False
