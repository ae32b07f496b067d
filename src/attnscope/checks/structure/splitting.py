"""The line at which an axis went wrong between a projection and attention, or on the way out."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.probes.coded import Coded, heads_of
from attnscope.checks.structure.landing import Scramble
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

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


def line_of_scramble(subject: Subject, coded: Coded, found: Scramble) -> Source:
    """Return the line of the first operation that spreads one token over several positions."""
    call, tape = coded.call, subject.base.tape
    located = subject.located(call)
    course = course_of(subject, call)
    if located is None or course is None:
        return call.source
    sample, position = found.token
    if found.side == "out":
        # where the heads go to the right token of other samples, all of the sample is changed
        apart = len({at for _, at in found.places}) == 1
        at = slice(None) if apart else position
        size, own = (call.batch, sample) if apart else (call.queries, position)
        allowed = torch.arange(size) == own
        changed = _changed_context(subject, located, sample, at)
    else:
        value = located.received[found.side]
        tensor = tape.run([value], wide=True)[value].clone()
        axis = coded.axes[found.side][1]
        allowed = torch.arange(tensor.shape[axis]) == position
        tensor.select(axis, position).add_(1.0 + tensor.abs().max())
        changed = {value: tensor}
    operation = first_mixing(tape, moved(tape, changed), Allowed(allowed))
    return course.line(operation)


def _changed_context(
    subject: Subject, located: Located, sample: int, at: int | slice
) -> dict[int, Tensor]:
    """Return the context of a sample changed at some positions, in all heads."""
    parts = heads_of(subject, located)
    values = [value for part in parts for value, _ in part.spots["context"]]
    before = subject.base.tape.run(values, wide=True)
    changed: dict[int, Tensor] = {}
    for part in parts:
        context = part.read("context", before).clone()
        row = context[sample, :, at]
        row += 1.0 + row.abs().max()
        changed |= part.write("context", context)
    return changed
