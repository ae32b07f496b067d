"""Which kv head each query head meets, in one call or in a loop over the heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.tape import Tape
from attnscope.checks.course import Course, course_of, representatives
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.scoring.assigned import line_of_index
from attnscope.checks.scoring.folded import heads_of_samples
from attnscope.checks.scoring.numbering import heads_by_features, kv_heads_met
from attnscope.checks.scoring.reading import is_of_a_library
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Met", "wrong_maps"]

_Side: TypeAlias = Literal["k", "v"]
_SIDES: tuple[_Side, ...] = ("k", "v")

_EXPANDS = frozenset(
    "repeat tile expand expand_as broadcast_to repeat_interleave cat stack index_select "
    "getitem".split()
)
_SPLITS = frozenset("view reshape unflatten view_as reshape_as rearrange".split())
_TAKES = frozenset("getitem select unbind narrow chunk split index_select".split())


@dataclass(frozen=True, slots=True)
class Met:
    """The kv head that each query head met, and the one that it should meet.

    side: of which of k and v; kv_heads: how many there are; unused: those that no head met.
    """

    call: Call
    side: _Side
    found: tuple[int, ...]
    wanted: tuple[int, ...]
    kv_heads: int
    source: Source

    @property
    def unused(self) -> tuple[int, ...]:
        """The kv heads that no query head met."""
        return tuple(head for head in range(self.kv_heads) if head not in self.found)


def wrong_maps(subject: Subject) -> Iterator[Met]:
    """Iterate over the calls, and the loops of calls, in which query heads meet other kv heads."""
    for call in subject.calls:
        found = _by_recipe(subject, call) or _by_copies(subject, call)
        if found is not None and not _is_made_by_group(subject, found):
            yield found
    for _, calls in groupby(subject.calls, key=lambda call: (call.module, _sizes(call))):
        several = list(calls)
        if len(several) > 1 and several[0].heads == 1:
            found = _by_loop(subject, several)
            if found is not None:
                yield found


def _is_made_by_group(subject: Subject, met: Met) -> bool:
    """Return whether query heads are made so that tiled kv heads are theirs: kv head by kv head.

    Each group (an expert's, in a mixture of attentions) has one head for each kv head, and is made
    by itself: heads of one projection are numbered as its features lie.
    """
    if heads_by_features(subject, met.call, "q") is not None:
        return False
    kv, heads, course = met.kv_heads, len(met.found), course_of(subject, met.call)
    if course is None or met.found != tuple(head % kv for head in range(heads)):
        return False
    width = met.call.head_dim
    apart = {(heads // kv, kv * width), (heads // kv, kv, width)}
    layout = course.layout_of("q")
    values = {v for op in layout for v in (*op.values(), *op.defines)}
    shapes = [tuple(subject.base.tape.tensors[value].shape) for value in values]
    return any(shape[-size:] in apart for shape in shapes for size in (2, 3))


def _by_recipe(subject: Subject, call: Call) -> Met | None:
    if call.kv_heads < 2 or call.heads == call.kv_heads or call.heads % call.kv_heads:
        return None
    read, wanted = _read(subject, call), _blocks(call.heads, call.kv_heads)
    if read is None:
        return None
    course = course_of(subject, call)
    samples = heads_of_samples(course) if course is not None else ()
    if course is not None and samples != (tuple(range(call.heads)),):
        return None if read == wanted else _in_a_sample(course, "k", read, samples)
    met = _by_features(subject, call, read)
    if met == wanted:
        return None
    line = call.source
    if course is not None:
        splits = [op for op in course.layout_of("q") if op.name in _SPLITS]
        line = course.line(*(_copying(course, "k") if met == read else ()), *splits)
    return Met(call, "k", met, wanted, call.kv_heads, line)


def _read(subject: Subject, call: Call) -> tuple[int, ...] | None:
    """Return the kv head of each query head: as the recipe has it, or as a change of it shows."""
    if "scores" in call.recipe.unknown:
        return kv_heads_met(subject, call)
    try:
        return call.recipe.kv_head_of(call.heads, call.kv_heads)
    except UNREADABLE:
        return None


def _by_features(subject: Subject, call: Call, met: tuple[int, ...]) -> tuple[int, ...]:
    """Return the kv head that each query head met, both numbered as their projections have them."""
    known = any(each.call is call for each in representatives(subject))
    if not known or is_of_a_library(subject, call):
        return met
    heads = heads_by_features(subject, call, "q")
    kv_heads = heads_by_features(subject, call, "k")
    if heads is None or kv_heads is None:
        return met
    return tuple(kv_heads.index(met[head]) for head in heads)


def _by_copies(subject: Subject, call: Call) -> Met | None:
    """Return a wrong map of k or v that were expanded, each in its own way, before they came."""
    course = course_of(subject, call)
    if course is None or call.kv_heads != call.heads or call.heads < 3:
        return None
    for side in _SIDES:
        if _grows(course, side) is None:
            continue
        labels = _labels(list(getattr(call, side).detach().unbind(1)))
        found = None if _is_right(labels) else _in_a_sample(course, side, labels)
        if found is not None:
            return found
    return None


def _in_a_sample(
    course: Course,
    side: _Side,
    met: tuple[int, ...],
    samples: tuple[tuple[int, ...], ...] | None = None,
) -> Met | None:
    """Return a map that is wrong within one sample: several samples may share keys and values."""
    for own in heads_of_samples(course) if samples is None else samples:
        labels = _labels([met[head] for head in own])
        if not _is_right(labels):
            count = len(set(labels))
            line = course.line(*_copying(course, side))
            return Met(course.call, side, labels, _blocks(len(labels), count), count, line)
    return None


def _is_right(labels: tuple[int, ...]) -> bool:
    """Return whether neighbours share a kv head, or heads are no groups at all."""
    heads, count = len(labels), len(set(labels))
    return not 1 < count < heads or heads % count != 0 or labels == _blocks(heads, count)


def _by_loop(subject: Subject, calls: Sequence[Call]) -> Met | None:
    """Return a wrong map of calls that are one head each and take k from one tensor."""
    taken = [_taken(subject, call) for call in calls]
    bases = {base for base, _, _ in filter(None, taken)}
    if len(bases) != 1 or None in taken:
        return None
    pieces = {each[2] for each in taken if each is not None}
    (kv_heads,) = pieces if len(pieces) == 1 else (0,)
    labels = _labels([call.k.detach() for call in calls])
    used = len(set(labels))
    heads = len(calls)
    if used < 2 or used == heads or kv_heads > heads or heads % max(kv_heads, 1):
        return None
    wanted = _blocks(heads, max(kv_heads, used))
    if labels == wanted:
        return None
    operation = taken[0][1] if taken[0] is not None else None
    source = operation.source if operation is not None and operation.source else calls[0].source
    return Met(calls[0], "k", labels, wanted, max(kv_heads, used), line_of_index(source))


def _taken(subject: Subject, call: Call) -> tuple[int, Operation, int] | None:
    """Return the tensor that k was taken from, how, and how many such pieces it has."""
    course = course_of(subject, call)
    spots = course.located.spots.get("k") if course is not None else None
    if not spots:
        return None
    tape, value = subject.base.tape, spots[0][0]
    size = tape.tensors[value].numel()
    for _ in range(8):
        operation = tape.maker.get(value)
        first = next(operation.values(), None) if operation is not None else None
        if operation is None or first is None:
            return None
        larger = tape.tensors[first].numel()
        if operation.name in _TAKES and larger > size and size:
            return first, operation, larger // size
        if larger != size:
            return None
        value = first
    return None


def _labels(heads: Sequence[Tensor] | Sequence[int]) -> tuple[int, ...]:
    """Return a number for each head: equal ones where heads are equal, by first appearance."""
    kinds: list[Tensor | int] = []
    found = []
    for head in heads:
        at = next((n for n, kind in enumerate(kinds) if _equal(kind, head)), None)
        if at is None:
            at = len(kinds)
            kinds.append(head)
        found.append(at)
    return tuple(found)


def _equal(one: Tensor | int, other: Tensor | int) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return torch.equal(one, other)
    return one is other or bool(one == other)


def _blocks(heads: int, kv_heads: int) -> tuple[int, ...]:
    return tuple(head // (heads // kv_heads) for head in range(heads))


def _copying(course: Course, side: str) -> list[Operation]:
    """Return the operations that copy heads of k or v."""
    grows = _grows(course, side)
    expanding = [op for op in course.layout_of(side) if op.name in _EXPANDS]
    return [*([grows] if grows is not None else []), *expanding]


def _grows(course: Course, side: str) -> Operation | None:
    """Return the operation that copies heads of k or v: samples may be copied behind it."""
    growing = list(_growing(course, side))
    return next((each for each in growing if not _copies_samples(course, each)), None) or next(
        iter(growing), None
    )


def _copies_samples(course: Course, operation: Operation) -> bool:
    """Return whether the first axis alone is longer than before."""
    tensors = course.tape.tensors
    given, made = tensors[next(operation.values())].shape, tensors[operation.defines[0]].shape
    return len(given) == len(made) and given[0] != made[0] and given[1:] == made[1:]


def _growing(course: Course, side: str) -> Iterator[Operation]:
    """Iterate over the operations that make more entries of k or v than they are given."""
    tape = course.tape
    spots = course.located.spots.get(side)
    value = spots[0][0] if spots else None
    for _ in range(64):
        operation = tape.maker.get(value) if value is not None else None
        if operation is None or operation.name in CONTRACTIONS:
            return
        values = dict.fromkeys(operation.values())
        given = [v for v in values if tape.tensors[v].is_floating_point()]
        whole = {_taken_from(tape, v) for v in given} if len(given) > 1 else set(given)
        if given and tape.tensors[operation.defines[0]].numel() > sum(
            tape.tensors[v].numel() for v in whole
        ):
            yield operation
        value = given[0] if given else None


def _taken_from(tape: Tape, value: int) -> int:
    """Return the value that a value is a piece of, or itself."""
    maker = tape.maker.get(value)
    first = next(maker.values(), None) if maker is not None and maker.name in _TAKES else None
    return value if first is None else first


def _sizes(call: Call) -> tuple[int, ...]:
    return (call.batch, call.heads, call.queries, call.keys, call.head_dim)
