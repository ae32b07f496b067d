"""The line at which an axis went wrong between a projection and attention, or on the way out."""

from __future__ import annotations

import torch

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.structure.landing import Scramble
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_axes", "line_of_scramble"]

_MOVES = frozenset(
    "transpose permute movedim swapaxes swapdims view reshape unflatten rearrange mT T view_as "
    "reshape_as".split()
)


def line_of_axes(subject: Subject, call: Call) -> Source:
    """Return the line of the last rearrangement on q's way into a call, or of the call."""
    course = course_of(subject, call)
    if course is None:
        return call.source
    moves = [op for op in course.layout_of("q") if op.name in _MOVES]
    return course.line(*moves, course.product)


def line_of_scramble(subject: Subject, call: Call, found: Scramble) -> Source:
    """Return the line of the first operation that spreads one token over several positions."""
    located, tape = subject.located(call), subject.base.tape
    course = course_of(subject, call)
    if located is None or course is None:
        return call.source
    sample, position = found.token
    if found.side == "out":
        values = [value for value, _ in located.spots["context"]]
        context = located.read("context", tape.run(values, wide=True)).clone()
        context[sample, :, position] += 1.0 + context[sample, :, position].abs().max()
        changed = located.write("context", context)
        length = call.queries
    else:
        value = located.received[found.side]
        tensor = tape.run([value], wide=True)[value].clone()
        axis = _axis_of_tokens(tuple(tensor.shape), subject)
        if axis is None:
            return call.source
        length = tensor.shape[axis]
        tensor.select(axis, position).add_(1.0 + tensor.abs().max())
        changed = {value: tensor}
    allowed = Allowed(torch.arange(length) == position)
    operation = first_mixing(tape, moved(tape, changed), allowed)
    return course.line(operation)


def _axis_of_tokens(shape: tuple[int, ...], subject: Subject) -> int | None:
    for stream in subject.roles.streams:
        length, usual = stream.length(subject.given), stream.sequence_axis
        if usual is not None and usual < len(shape) and shape[usual] == length:
            return usual
        fits = [axis for axis, size in enumerate(shape[:-1]) if size == length]
        if fits:
            return fits[0]
    return None
