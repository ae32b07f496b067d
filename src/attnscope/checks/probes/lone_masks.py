"""What joins the scores of a sample is compared: alone, and in the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.evidence import Spot
from attnscope.calls.program import Operation
from attnscope.checks.influence import differs
from attnscope.checks.masking.refilling import refilled
from attnscope.checks.masking.seen import Seen, seen_by
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import alone
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["LoneMask", "lone_masks"]

_TRIED = 2
"""Samples that are run alone."""

_FAR = 1e-3
"""Of the largest bias: what differs by less is rounding of a lower precision."""

_LEAST = 1e-2
"""A bias of which no entry is larger changes no weight that anybody could see."""


@dataclass(frozen=True, slots=True, eq=False)
class LoneMask:
    """A mask or bias that meets other rows in the batch than where its sample runs alone.

    operation: where it joins the scores; sample: whose; rows: (window, head) pairs of the sample
    that get another one, of how many; largest: by how much.
    """

    seen: Seen
    operation: Operation
    sample: int
    rows: int
    of: int
    largest: float


@probe
def lone_masks(subject: Subject) -> list[LoneMask]:
    """Run single samples alone; compare what joins the scores where more is folded into the batch.

    Raises:
        Skipped: there are not two samples, or no such call.
    """
    stream = subject.roles.main
    batch = stream.batch(subject.given) if stream is not None else 0
    if stream is None or batch < 2:
        raise Skipped(f"the batch has {batch} samples: give inputs with two or more")
    folded = [
        (seen, operation, value)
        for seen in (seen_by(subject, call) for call in subject.calls)
        for operation, value in _joined(seen, batch)
    ]
    if not folded or not subject.base.is_faithful:
        raise Skipped("no mask or bias has rows of its own for windows, or for folded heads")
    found: dict[int, LoneMask] = {}
    for sample in range(min(batch, _TRIED)):
        other = subject.with_inputs(alone(subject, sample))
        if other.crash is not None or len(other.calls) != len(subject.calls):
            raise Skipped("a sample alone takes another course than in the batch")
        moved = _moved_queries(subject, stream, [seen for seen, _, _ in folded], sample)
        for seen, operation, value in folded:
            if operation.defines[0] in found:
                continue
            rows = _rows_of(subject, stream, seen, moved)
            one = _compared(subject, other, sample, rows, (seen, operation, value))
            if one is not None:
                found[operation.defines[0]] = one
    return list(found.values())


def _joined(seen: Seen, batch: int) -> Iterator[tuple[Operation, int]]:
    """Iterate over what joins the scores with rows of its own, where the batch holds more."""
    course, call = seen.course, seen.call
    if course is None or call.batch % batch or len(course.main) < 2:
        return
    for operation in course.main:
        if operation is course.softmax:
            return
        if operation.kwargs.get("beta", 1) == 0:  # what baddbmm is given then plays no part
            continue
        shape = operation.shapes[0]
        if call.batch == batch and (len(shape) != 3 or call.heads == 1):
            continue
        for value in course.joined(operation):
            tensor = course.tape.tensors[value]
            at = tensor.dim() - 3  # what lies in front of (queries, keys)
            rows = tensor.shape[: max(at + 1, 0)].numel() if tensor.dim() > 2 else 1
            if rows > 1 and tensor.is_floating_point() | (tensor.dtype == torch.bool):
                yield operation, value


def _compared(
    subject: Subject,
    other: Subject,
    sample: int,
    own: Tensor | None,
    place: tuple[Seen, Operation, int],
) -> LoneMask | None:
    seen, operation, value = place
    twin = seen_by(other, other.calls[subject.calls.index(seen.call)])
    at = list(seen.course.main).index(operation) if seen.course is not None else -1
    course = twin.course
    if course is None or at >= len(course.main) or course.main[at].name != operation.name:
        return None
    same = course.joined(course.main[at])
    position = seen.course.joined(operation).index(value) if seen.course is not None else 0
    try:
        if own is None or position >= len(same):
            return None
        here = seen.over_pairs(operation, _tensor(subject, value))[own].double()
        there = twin.over_pairs(course.main[at], _tensor(other, same[position])).double()
    except UNREADABLE:
        return None
    if here.shape != there.shape or not bool(here.isfinite().all() & there.isfinite().all()):
        return None
    gap = (here - there).abs()
    wrong = (gap > _FAR * there.abs().max().clamp_min(_LEAST)).flatten(2).any(-1)
    if not bool(wrong.any()):
        return None
    return LoneMask(seen, operation, sample, int(wrong.sum()), wrong.numel(), float(gap.max()))


def _tensor(subject: Subject, value: int) -> Tensor:
    return subject.base.tape.tensors[value].detach()


def _moved_queries(
    subject: Subject, stream: Stream, all_seen: Iterable[Seen], sample: int
) -> dict[int, Tensor]:
    """Return which entries of the values that hold q of each call move with a sample."""
    where = torch.zeros(stream.batch(subject.given), max(stream.length(subject.given), 1))
    where[sample] = 1.0
    values = [v for v, _ in (spot for seen in all_seen for spot in _queries(seen))]
    tape, given = subject.base.tape, refilled(subject, stream, where.bool())
    try:
        before, after = tape.run(values, wide=True), tape.run(values, given, wide=True)
    except UNREADABLE:
        return {}
    return {value: differs(before[value], after[value]) for value in values}


def _queries(seen: Seen) -> list[tuple[int, Spot]]:
    """Return where the q of a call lies, if that is one value."""
    spots = seen.course.located.spots["q"] if seen.course is not None else []
    return spots if len(spots) == 1 else []


def _rows_of(
    subject: Subject, stream: Stream, seen: Seen, moved: Mapping[int, Tensor]
) -> Tensor | None:
    """Return the rows of a call's batch axis that follow a sample: its queries move with it."""
    spots = _queries(seen)
    if not spots or spots[0][0] not in moved:
        return None
    ((value, spot),) = spots
    rows: Tensor = (spot.read(moved[value].double()) != 0).flatten(1).any(1)
    count = seen.call.batch // stream.batch(subject.given)
    return rows if int(rows.sum()) == count else None
