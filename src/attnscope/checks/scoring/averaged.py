"""Heads that look alike because their weights are averaged before they meet v."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import STATISTICS, course_of
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Averaged", "averaged"]

_SAME = 1e-5


@dataclass(frozen=True, slots=True)
class Averaged:
    """A call whose heads share their mean weights, and the line that takes the mean.

    apart: the most that the weights of two heads differed by.
    """

    call: Call
    apart: float
    source: Source | None


def averaged(subject: Subject) -> Iterator[Averaged]:
    """Iterate over calls whose values have heads of their own, and whose weights no longer do."""
    for call in subject.calls:
        with contextlib.suppress(*UNREADABLE):
            weights = call.weights().detach().double() if call.recipe.after else None
            if weights is not None and _shares_mean(call, weights):
                apart = float((weights.amax(1) - weights.amin(1)).max())
                yield Averaged(call, apart, _line(subject, call))


def _line(subject: Subject, call: Call) -> Source | None:
    course = course_of(subject, call)
    if course is None or course.softmax is None:
        return None
    after = course.main[course.main.index(course.softmax) :]
    mean = next((op for op in after if op.name in STATISTICS), course.weighing)
    return course.line(mean)


def _shares_mean(call: Call, weights: Tensor) -> bool:
    batch, heads = weights.shape[:2]
    v, context = call.v.detach().double(), call.context().detach().double()
    if heads < 2 or v.shape[0] * v.shape[1] != batch * heads:
        return False
    v, context = (each.reshape(batch, heads, *each.shape[-2:]) for each in (v, context))
    shared, own = weights.mean(1, keepdim=True) @ v, weights @ v
    bound = _SAME * float(own.abs().max())
    return float((context - shared).abs().max()) <= bound < float((own - shared).abs().max())
