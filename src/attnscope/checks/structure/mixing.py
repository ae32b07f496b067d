"""The operation in or around attention at which the samples of a batch first mix."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.course import HIDING, SOFTMAXES, STATISTICS, course_of
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.probes.batch_mates import BatchMates, batch_mates
from attnscope.checks.probes.coded import Coded, coded
from attnscope.checks.structure.batch_axis import named_by_module, said_of
from attnscope.checks.structure.landing import runs_over_samples
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import with_other_sample
from attnscope.differ.sides.located import Located

__all__ = [
    "Mixing",
    "line_of_samples",
    "moved_by_sample",
    "softmax_over_samples",
    "where_samples_mix",
]

_KERNELS = frozenset({"scaled_dot_product_attention", "flex_attention"})


@dataclass(frozen=True, slots=True)
class Mixing:
    """The operation that mixes samples, and the call that it is a part of.

    laid_out: it is none of attention's own: it lays out what a call reads, or what one returned.
    """

    operation: Operation
    call: Call
    laid_out: bool = False

    @property
    def is_softmax(self) -> bool:
        """Whether it normalises scores."""
        return self.operation.name in SOFTMAXES


def where_samples_mix(subject: Subject, mates: BatchMates) -> Mixing | None:
    """Return where other samples begin to move when one is changed; None: in no attention."""
    return subject.once("where samples mix", lambda: _where(subject, mates))


def _where(subject: Subject, mates: BatchMates) -> Mixing | None:
    tape, entries = subject.base.tape, moved_by_sample(subject, mates)
    allowed = mates.allowed(subject)
    operation = first_mixing(tape, entries, allowed)
    if operation is None or operation.name in STATISTICS | HIDING:
        return None
    for located in subject.base.located:
        if any(each is operation for each in _around(subject, located)):
            own = {value for spots in located.spots.values() for value, _ in spots}
            masks = [entries[v] for v in operation.values() if v in entries and v not in own]
            if operation.name in _KERNELS and any(bool(each.any()) for each in masks):
                return None  # a mask that meets the wrong samples
            return Mixing(operation, located.call)
    if operation.name not in LAYOUT | _JOINS:
        return None
    call = _beside(subject, operation)
    if call is None:
        return None
    return Mixing(_merging(subject, operation, entries, allowed), call, laid_out=True)


def line_of_samples(subject: Subject, mates: BatchMates, call: Call) -> Source | None:
    """Return the line that moved the samples to where a call has its keys; None: none did.

    Inside, that is the first rearrangement between the projection and q that moves their axis.
    Where the module that attends names its axes otherwise than it is given them, it is the
    caller's.
    """
    course, located = course_of(subject, call), subject.located(call)
    received = located.received.get("q") if located is not None else None
    if course is None or received is None:
        return None
    entries, allowed = moved_by_sample(subject, mates), mates.allowed(subject)
    maker = subject.base.tape.maker
    given = _axis_in(entries, received, allowed)
    said = named_by_module(subject, call.module)
    if said is not None and given is not None and said[0] != given:
        value: int | None = received
        for _ in range(_LONGEST):
            operation = maker.get(value) if value is not None else None
            if operation is None:
                break
            value = next((v for v in operation.values() if v in entries), None)
            if value is not None and _axis_in(entries, value, allowed) not in {given, None}:
                return operation.source
    for operation in reversed(course.layout_of("q")):
        before = next((v for v in operation.values() if v in entries), None)
        axes = [
            _axis_in(entries, v, allowed) for v in (before, operation.defines[0]) if v is not None
        ]
        if len(axes) == 2 and None not in axes and axes[0] != axes[1]:
            return operation.source
    return None


def _axis_in(entries: Mapping[int, Tensor], value: int, allowed: Allowed) -> int | None:
    """Return the axis of the samples of a value, where they have one of their own."""
    return next(iter(_own_axes(entries[value], allowed)), None) if value in entries else None


_JOINS = frozenset("cat stack pad".split())


def moved_by_sample(
    subject: Subject, mates: BatchMates, among: Collection[int] | None = None
) -> dict[int, Tensor]:
    """Return which entries of each value move with the changed sample.

    among: the values that are asked about; None: all.
    """
    if among is None:
        return subject.once("moved by a sample", lambda: _moves(subject, mates, None))
    return _moves(subject, mates, among) if among else {}


def _moves(subject: Subject, mates: BatchMates, among: Collection[int] | None) -> dict[int, Tensor]:
    other = with_other_sample(subject, mates.changed)
    changed = {}
    for stream in subject.roles.streams:
        value = subject.input_value(stream.name)
        if value is not None and stream.batch_axis is not None:
            changed[value] = other.values[stream.name]
    return moved(subject.base.tape, changed, among)


def _beside(subject: Subject, operation: Operation) -> Call | None:
    """Return the first call that reads what an operation made, or that it reads the context of."""
    ahead = _reached(subject, operation.defines)
    for located in subject.base.located:
        if not ahead.isdisjoint(
            value for side in "qkv" for value, _ in located.spots.get(side, [])
        ):
            return located.call
    for located in reversed(subject.base.located):
        context = [value for value, _ in located.spots.get("context", [])]
        if not _reached(subject, context).isdisjoint(operation.values()):
            return located.call
    return None


def _reached(subject: Subject, starts: Iterable[int]) -> set[int]:
    reached = set(starts)
    for operation in subject.base.tape.operations:
        if not reached.isdisjoint(operation.values()):
            reached.update(operation.defines)
    return reached


def _merging(
    subject: Subject, operation: Operation, entries: Mapping[int, Tensor], allowed: Allowed
) -> Operation:
    """Return the operation behind one that mixes which merged the samples with another axis.

    That is at fault where samples are not the outermost part of what they were merged with, which
    is how everything takes them apart again; otherwise the one that mixes is.
    """
    maker = subject.base.tape.maker
    at: Operation | None = operation
    for _ in range(_LONGEST):
        known = [v for v in at.values() if v in entries] if at is not None else []
        if not known or any(_own_axes(entries[v], allowed) for v in known):
            break
        value = known[0]
        at = maker.get(value)
        before = [v for v in at.values() if v in entries] if at is not None else []
        if at is None or not any(_own_axes(entries[v], allowed) for v in before):
            continue
        return operation if _is_outermost(entries[value], allowed) else at
    return operation


_LONGEST = 200


def _own_axes(moved_entries: Tensor, allowed: Allowed) -> list[int]:
    """Return the axes that are the samples' own; none where they are merged with others."""
    axes = [axis for axis, size in enumerate(moved_entries.shape) if size == allowed.size]
    return [a for a in axes if not bool(moved_entries.movedim(a, 0)[~allowed.indices].any())]


def _is_outermost(moved_entries: Tensor, allowed: Allowed) -> bool:
    """Return whether the samples are the outermost part of an axis that they were merged with."""
    for axis, size in enumerate(moved_entries.shape):
        if size % allowed.size == 0:
            apart = moved_entries.unflatten(axis, (allowed.size, -1)).movedim(axis, 0)
            if not bool(apart[~allowed.indices].any()):
                return True
    return False


def _around(subject: Subject, located: Located) -> tuple[Operation, ...]:
    """Return the operations from what a call's projections receive to its output.

    Those that make masks and biases are left out.
    """
    course = course_of(subject, located.call)
    inside, aside = (course.main, course.aside) if course is not None else ((), ())
    tape, output = subject.base.tape, located.output
    if output is None or not located.received:
        return inside
    held = {value: tape.tensors[value] for value in located.received.values()}
    masks = {id(each) for each in aside}
    around = tape.program.needed((output,), held)
    return (*inside, *(each for each in around if id(each) not in masks))


def softmax_over_samples(subject: Subject) -> Mixing | None:
    """Return the softmax that normalises over the samples of the batch beside the keys, or instead.

    Where nothing says which axis is the batch, the keys have to be tokens: else the samples may be
    the tokens.
    """
    mates = batch_mates(subject)
    said = said_of(subject, mates.stream)
    if not mates.leaks or said.axis not in {None, mates.stream.batch_axis}:
        return None
    found = where_samples_mix(subject, mates)
    if found is None or not found.is_softmax:
        return None
    codes = coded(subject)
    if any(runs_over_samples(each) is not None for each in codes):
        return None
    tokens = any(_keys_are_tokens(each) for each in codes)
    return found if tokens or said.axis is not None else None


def _keys_are_tokens(coded: Coded) -> bool:
    """Return whether different tokens of one sample are different keys of a row."""
    own = [each.entries for each in coded.landings.get("k", ()) if each.token[0] == 0]
    if len(own) < 2:
        return False
    first, second = own[0], own[1]
    rows = first.any(-1) & second.any(-1)
    return bool(rows.any()) and not bool((first & second).any())
