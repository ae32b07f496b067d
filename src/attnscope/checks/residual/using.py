"""The line at which an idle parameter would be used, or at which what is made of it gets lost."""

from __future__ import annotations

import re

from torch import nn

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import Course, course_of
from attnscope.checks.definitions import defined, put_in_later, returned
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.residual.assigning import line_of_part
from attnscope.checks.residual.graph import free_values, reached
from attnscope.checks.scoring.assigned import is_returned
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_idle"]

_IN_SOFTMAX = re.compile(r"sink|bias|rel|alibi|slope|mix|talk|null|decay", re.IGNORECASE)
_IN_PRODUCT = re.compile(
    r"temp|scale|tau|(^|_)(q|k|qk|query|key)_?(norm|ln)|norm_?(q|k)$|(q|k)norm", re.IGNORECASE
)
_AT_THE_END = re.compile(r"^(w?o|out|w_?o|.*_?proj|.*out.*|dense|unify.*|fc_?o)$", re.IGNORECASE)
_OF_INPUTS = re.compile(r"^(to_)?(q|k|v|qkv|kv)_|query|key|value|in_proj", re.IGNORECASE)


def line_of_idle(
    subject: Subject, model: nn.Module, owner: str, names: list[str], *, dropped: bool
) -> Source | None:
    """Return where what is made of them gets lost, or where they would be used; else made.

    dropped: all that the owner computes is lost.
    """
    attribute = names[0].removeprefix(f"{owner}." if owner else "").split(".")[0]
    later = put_in_later(model, model.get_submodule(owner), attribute)
    if later is not None:
        return later
    values = [v for v, name in subject.base.parameters.items() if name in names]
    if values:
        after = reached(subject.base.tape, values)
        last = [op for op in subject.base.tape.operations if not after.isdisjoint(op.defines)]
        if last and dropped:
            return _line_of_loss(subject, last[-1])
        return _line_in_attention(subject, owner, last[-1]) if last else None
    made = line_of_part(subject, owner, [name.removeprefix(f"{owner}.") for name in names])
    if made is not None:
        return made
    return _line_of_use(subject, owner, attribute) or defined(model, names[0])


def _line_of_loss(subject: Subject, operation: Operation) -> Source | None:
    """Return the line that drops what an operation gives, and what is returned of it."""
    for frame in frames_at(subject, operation):
        if frame.own and not is_returned(frame.source()):
            return frame.source()
    return operation.source


def _line_of_use(subject: Subject, owner: str, attribute: str) -> Source | None:
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


def _line_in_attention(subject: Subject, owner: str, operation: Operation) -> Source | None:
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
