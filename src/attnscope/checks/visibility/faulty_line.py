"""The line at fault of a layer in which some pairs of tokens are seen, or hidden, wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.caller import line_in_common_owner, users_line
from attnscope.checks.course import Course, course_of, course_on
from attnscope.checks.masking.crossed import line_of_crossed
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.making import Pairs, line_of_making, made_wrongly, maker_of
from attnscope.checks.visibility.tokens import made_of_inputs
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
) -> Source:
    """Return the line at fault.

    ways: pairs (batch, queries, keys): the wrong ones, those that they are treated like, and those
    that they should be treated like; the first way that shows a line counts. right: layers in
    which nothing is wrong: where they run the same lines, the one that calls this layer is at
    fault. ordered: it is the order of tokens that makes pairs wrong, not what they are.
    """
    course = _course(subject, layer)
    if course is None:
        return layer.call.source
    line, made = course.line(course.softmax), None
    of_inputs = made_of_inputs(subject, layer.side)
    if layer.is_one_call:
        pairs = [_over_heads(each, ordered=ordered) for each in ways]
        hides = bool((~layer.visible & layer.visible.any(1, keepdim=True)).any())
        made = made_wrongly(course, pairs, of_inputs)
        line = line_of_making(course, pairs, hides=hides, of_inputs=of_inputs)
    elif course.hiding:
        made = maker_of(course, of_inputs)
        line = course.line(made, course.hiding[-1])
    if made is not None and layer.side is subject.base:
        crossed = line_of_crossed(subject, made)
        if crossed is not None:
            return crossed
    same = [each for each in right if _same(_course(subject, each), course)]
    if same and not (made is not None and _runs_alone(subject, made, same)):
        other = line_in_common_owner(subject, layer.module, [each.module for each in same])
        return other or line
    return users_line(subject, layer.module, line)


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


def _course(subject: Subject, layer: Layer) -> Course | None:
    if layer.side is subject.base:
        return course_of(subject, layer.call)
    return course_on(layer.side.tape, layer.calls[0])
