"""The line at which an axis went wrong between a projection and attention, or on the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.tape import Tape
from attnscope.checks.course import course_of, way_out
from attnscope.checks.influence import Allowed, moved
from attnscope.checks.operations import CONTRACTIONS, CONVOLUTIONS, RESHAPES
from attnscope.checks.probes.coded import Coded, heads_of, laid_out
from attnscope.checks.structure.landing import Scramble
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["line_of_axes", "operation_of_scramble"]

_MOVES = frozenset(
    "transpose permute movedim view reshape unflatten rearrange mT T view_as reshape_as".split()
)
_RENUMBERS = frozenset(
    "cat getitem narrow split chunk tensor_split split_with_sizes pad roll flip "
    "index_select".split()
)
"""Operations after which a token lies at another index, and all of it does."""


def line_of_axes(subject: Subject, call: Call) -> Source:
    """Return the line of the last rearrangement on q's way into a call, or of the call."""
    course = course_of(subject, call)
    if course is None:
        return call.source
    moves = [op for op in course.layout_of("q") if op.name in _MOVES]
    return course.line(*moves, course.product)


def operation_of_scramble(subject: Subject, coded: Coded, found: Scramble) -> Operation | None:
    """Return the first operation that spreads one token over several positions.

    None: none was found. Where single features lie at different positions, a reshape has to be at
    fault: anything else may move them there on purpose.
    """
    located = subject.located(coded.call)
    if located is None:
        return None
    tape = subject.base.tape
    changed, allowed = _change(subject, coded, located, found)
    entries = moved(tape, changed)
    inside = _between(subject, located, found.side, entries)
    if not found.cut:
        first = _first_spreading(tape, entries, allowed)
        return first if found.side != "out" or first in inside else _last_reshape(inside) or first
    for operation in inside:
        spread = not all(allowed.holds(entries[value]) for value in operation.defines)
        if spread and operation.name not in CONTRACTIONS | CONVOLUTIONS:
            return operation if operation.name in RESHAPES else None
    return _last_reshape(inside)


def _first_spreading(
    tape: Tape, entries: Mapping[int, Tensor], allowed: Allowed
) -> Operation | None:
    """Return the first operation after which a token is not at one place of some axis any more.

    Where tokens were joined with others, or some of them taken, its place is another one.
    """
    places, outside = [allowed], set[int]()
    for operation in tape.operations:
        known = [value for value in operation.defines if value in entries]
        made = [v for v in known if not any(each.holds(entries[v]) for each in places)]
        if not made:
            continue
        if outside.isdisjoint(operation.values()):
            moved_on = [_place_in(entries[value]) for value in made]
            if operation.name not in _RENUMBERS or None in moved_on:
                return operation
            places += [each for each in moved_on if each is not None]
            continue
        outside.update(made)
    return None


def _place_in(entries: Tensor) -> Allowed | None:
    """Return the one index of the one axis at which anything moved; None: there are more of it."""
    found = [
        Allowed(which)
        for axis in range(entries.dim())
        if entries.shape[axis] > 1
        and int((which := entries.movedim(axis, 0).flatten(1).any(-1)).sum()) == 1
    ]
    return found[0] if len(found) == 1 else None


def _last_reshape(operations: Sequence[Operation]) -> Operation | None:
    return next((each for each in reversed(operations) if each.name in RESHAPES), None)


def _between(
    subject: Subject, located: Located, side: str, entries: Mapping[int, Tensor]
) -> list[Operation]:
    """Return the operations that a changed token goes through, to q, k or v, or from the context.

    On the way out, those that lay the heads out.
    """
    tape = subject.base.tape
    if side == "out":
        return list(way_out(tape, located))
    wanted = tuple(value for value, _ in located.spots[side])
    received = located.received[side]
    needed = tape.program.needed(wanted, {received: tape.tensors[received]})
    return [each for each in needed if each.defines[0] in entries]


def _change(
    subject: Subject, coded: Coded, located: Located, found: Scramble
) -> tuple[dict[int, Tensor], Allowed]:
    """Return other values in which one token, or one position of the context, is changed."""
    sample, position = found.token
    call, tape = coded.call, subject.base.tape
    if found.side == "out":
        # where the heads go to the right token of other samples, all of the sample is changed
        apart = not found.cut and len({at for _, at in found.places}) == 1
        at = slice(None) if apart else position
        size, own = (call.batch, sample) if apart else (call.queries, position)
        return _changed_context(subject, located, sample, at), Allowed(torch.arange(size) == own)
    value = located.received[found.side]
    tensor = tape.run([value], wide=True)[value].clone()
    axes = coded.axes[found.side]
    laid = laid_out(tensor, axes)
    laid.select(axes[1], position).add_(1.0 + tensor.abs().max())
    return {value: tensor}, Allowed(torch.arange(laid.shape[axes[1]]) == position)


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
