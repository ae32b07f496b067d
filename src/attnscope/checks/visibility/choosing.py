"""Which keys are seen because their content was chosen: the best few of them."""

from __future__ import annotations

from attnscope.calls.program import Operation
from attnscope.checks.course import Course, course_of
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.layer import Layer

__all__ = ["chooses_by_content"]

_CHOOSES = frozenset("topk sort argsort msort kthvalue argmax multinomial quantile median".split())


def chooses_by_content(subject: Subject, layer: Layer) -> bool:
    """Return whether an attention picks its keys by numbers that are made of learned projections.

    A mask that is made of lengths, ids or places alone chooses nothing.
    """
    courses = [course_of(subject, each.call) for each in layer.calls]
    return any(course is not None and _chooses(layer, course) for course in courses)


def _chooses(layer: Layer, course: Course) -> bool:
    tape, given = course.tape, set(layer.given)
    learned = {value for spots in course.located.spots.values() for value, _ in spots}
    for operation in (*course.aside, *course.main):
        values = set(operation.values())
        if operation.name in _CHOOSES and _reads_numbers(operation, learned, course):
            return True
        if not learned.isdisjoint(values) or (
            operation.name in CONTRACTIONS and not given.isdisjoint(values)
        ):
            learned.update(v for v in operation.defines if tape.tensors[v].is_floating_point())
        elif not given.isdisjoint(values):
            given.update(operation.defines)
    return False


def _reads_numbers(operation: Operation, learned: set[int], course: Course) -> bool:
    first = next(operation.values(), None)
    return first in learned and course.tape.tensors[first].is_floating_point()
