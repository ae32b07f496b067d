"""The line at which an idle parameter would be used, or at which what is made of it gets lost."""

from __future__ import annotations

import re

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import Course, course_of
from attnscope.checks.definitions import returned
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.residual.graph import free_values
from attnscope.checks.subject.subject import Subject

__all__ = ["line_in_attention", "line_of_use"]

_IN_SOFTMAX = re.compile(r"sink|bias|rel|alibi|slope|mix|talk|null|decay", re.IGNORECASE)
_IN_PRODUCT = re.compile(
    r"temp|scale|tau|(^|_)(q|k|qk|query|key)_?(norm|ln)|norm_?(q|k)$|(q|k)norm", re.IGNORECASE
)
_AT_THE_END = re.compile(r"^(w?o|out|w_?o|.*_?proj|.*out.*|dense|unify.*|fc_?o)$", re.IGNORECASE)
_OF_INPUTS = re.compile(r"^(to_)?(q|k|v|qkv|kv)_|query|key|value|in_proj", re.IGNORECASE)


def line_of_use(subject: Subject, owner: str, attribute: str) -> Source | None:
    """Return the step of the call that a parameter of that name belongs to; None: no name tells."""
    course = _course(subject, owner)
    if course is None:
        return None
    if _IN_PRODUCT.search(attribute):
        return course.line(course.product)
    if _IN_SOFTMAX.search(attribute):
        return course.line(course.softmax)
    if _AT_THE_END.search(attribute) and not _OF_INPUTS.search(attribute):
        return _end(subject, course, owner)
    return None


def line_in_attention(subject: Subject, owner: str, operation: Operation) -> Source | None:
    """Return the line of an operation, in the function that attends where a helper made it.

    A bias that is made of parameters alone and goes nowhere is missed where it should join.
    """
    course = _course(subject, owner)
    source = operation.source
    if course is not None and source is not None and _is_bias(subject, course, operation):
        softmax = course.line(course.softmax)
        if softmax.function == source.function:
            return softmax
    if course is None or source is None or source.function == course.call.source.function:
        return source
    for frame in frames_at(subject, operation):
        if frame.own and frame.source().function == course.call.source.function:
            return frame.source()
    return source


def _is_bias(subject: Subject, course: Course, operation: Operation) -> bool:
    """Return whether an operation makes a table of queries and keys, of no input."""
    made, call = operation.defines[0], course.call
    sizes = tuple(subject.base.tape.tensors[made].shape[-2:])
    return sizes == (call.queries, call.keys) and made in free_values(subject)


def _course(subject: Subject, owner: str) -> Course | None:
    prefix = f"{owner}." if owner else ""
    for call in subject.calls:
        if call.module == owner or call.module.startswith(prefix):
            return course_of(subject, call)
    return None


def _end(subject: Subject, course: Course, owner: str) -> Source | None:
    """Return the last return statement of the function that attends."""
    model, source = subject.model, course.call.source
    if model is None or not source.function.endswith(".forward"):
        return None
    found = returned(model.get_submodule(owner))
    return found if found is not None and found.file == source.file else None
