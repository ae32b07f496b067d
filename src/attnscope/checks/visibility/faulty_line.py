"""The line at fault of a layer in which some pairs of tokens are seen, or hidden, wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.caller import users_line
from attnscope.checks.course import Course, course_of, course_on
from attnscope.checks.masking.crossed import line_of_crossed
from attnscope.checks.masking.sharing import line_of_misuse, line_of_user
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.lacking import lost_at, made_before, whole_of
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.making import Pairs, line_of_making, made_wrongly, maker_of
from attnscope.checks.visibility.tokens import made_of_inputs
from attnscope.differ.sides.located import Located
from attnscope.errors import AttnscopeError

__all__ = ["gives_weight", "line_of_pairs"]

Sides: TypeAlias = tuple[Tensor, Tensor, Tensor]

_WEIGHT = 1e-12
"""Above this a weight is one: what a mask hides has none, or less than 1e-21."""


def line_of_pairs(
    subject: Subject,
    layer: Layer,
    ways: Sequence[Sides],
    right: Iterable[Layer],
    *,
    ordered: bool = False,
    whole: bool = False,
) -> Source:
    """Return the line at fault.

    ways: pairs (batch, queries, keys): the wrong ones, those that they are treated like, and those
    that they should be treated like; the first way that shows a line counts. right: layers in
    which nothing is wrong: where they run the same lines, the one that calls this layer is at
    fault. ordered: it is the order of tokens that makes pairs wrong, not what they are. whole: a
    mask of pairs that was made has to know of them, whatever else it knows.
    """
    course = _course(subject, layer)
    if course is None:
        return layer.call.source
    pairs = [_over_heads(each, ordered=ordered) for each in ways]
    line, made = _of_call(subject, layer, pairs, whole=whole)
    if made is not None and layer.side is subject.base:
        handed = line_of_crossed(subject, made) or line_of_misuse(subject, made)
        if handed is not None:
            return handed
    same = [each for each in right if _same(_course(subject, each), course)]
    if same and not (made is not None and _runs_alone(subject, made, same)):
        others = [(each.module, _softmax(subject, each)) for each in same]
        return line_of_user(subject, layer.module, _softmax(subject, layer), others) or line
    return users_line(subject, layer.module, line)


def _of_call(
    subject: Subject, layer: Layer, ways: Sequence[Pairs], *, whole: bool
) -> tuple[Source, Operation | None]:
    """Return the line at fault in a layer's own calls, and what makes the mask wrong there."""
    of_inputs = made_of_inputs(subject, layer.side)
    courses = [course for each in layer.calls if (course := _course_of(subject, layer, each))]
    course = courses[0]
    if not layer.is_each_call:
        made = maker_of(course, of_inputs) if course.hiding else None
        return course.line(made, *course.hiding[-1:], course.softmax), made
    for each in courses:
        made = made_wrongly(each, ways, of_inputs) or lost_at(each, ways[0], of_inputs)
        if made is not None:
            course = each
            break
    else:
        made = whole_of(course, ordered=ways[0].ordered) if whole else None
    if made is None:
        hides = bool((~layer.visible & layer.visible.any(1, keepdim=True)).any())
        return line_of_making(course, ways, hides=hides, of_inputs=of_inputs), None
    line = course.line(made, *course.hiding[-1:], course.softmax)
    if layer.side is subject.base:
        line = made_before(subject, course, made, ways, of_inputs) or line
    return line, made


def gives_weight(layer: Layer, pairs: Tensor) -> bool:
    """Return whether any head gives weight to some pairs; True where that can't be told.

    A token can reach others though no weight leads there: by a scale or a norm over all of them.
    """
    if not layer.is_one_call:
        return True
    located = layer.calls[0]
    try:
        weights = located.rerun("weights", *(located.value(name) for name in ("q", "k", "v")))
    except (AttnscopeError, RuntimeError):
        return True
    return bool((weights.abs().amax(1)[pairs] > _WEIGHT).any())


def _over_heads(sides: Sides, *, ordered: bool) -> Pairs:
    wrong, like, unlike = (each[:, None] for each in sides)
    return Pairs(wrong, like, unlike, ordered)


def _runs_alone(subject: Subject, made: Operation, right: Iterable[Layer]) -> bool:
    """Return whether a layer's mask is made at a line that the layers without fault don't run."""
    courses = (_course(subject, each) for each in right)
    lines = {str(op.source) for course in courses if course is not None for op in course.aside}
    return str(made.source) not in lines


def _same(one: Course | None, other: Course) -> bool:
    """Return whether two calls are made at one line."""
    if one is None:
        return False
    a, b = one.line(one.softmax), other.line(other.softmax)
    return (a.file, a.line) == (b.file, b.line)


def _softmax(subject: Subject, layer: Layer) -> Operation | None:
    """Return the softmax of a layer of the base run, whose stacks can be had."""
    course = _course(subject, layer) if layer.side is subject.base else None
    return course.softmax if course is not None else None


def _course(subject: Subject, layer: Layer) -> Course | None:
    return _course_of(subject, layer, layer.calls[0])


def _course_of(subject: Subject, layer: Layer, located: Located) -> Course | None:
    if layer.side is subject.base:
        return course_of(subject, located.call)
    return course_on(layer.side.tape, located)
