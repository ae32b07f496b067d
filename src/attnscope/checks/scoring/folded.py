"""Which rows of a call are heads of one sample: samples may be folded into the axis of heads.

nn.MultiheadAttention and code around bmm hand (batch · heads) rows over, and beams or prompts that
are shared make rows of several samples equal. One feature of the projection of q is changed: the
rows that move are the same head, once in each sample.
"""

from __future__ import annotations

from torch import Tensor

from attnscope.checks.course import Course
from attnscope.checks.operations import CONTRACTIONS, CONVOLUTIONS
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["heads_of_samples"]

_LONGEST = 64
_MOST_TRIED = 16
"""Features that are changed until one of them is a feature of q: packed projections hold others."""

_MUCH = 0.2
"""Share of the largest change from which a head holds the feature: a norm moves others by less."""


def heads_of_samples(course: Course) -> tuple[tuple[int, ...], ...]:
    """Return the indices along the axis of heads that are one sample's, for each sample.

    One sample has them all where nothing is folded; none: it can't be told.
    """
    heads = course.call.heads
    if course.call.q.shape[1] != heads:  # q was copied as k and v were: whole samples were
        return ()
    projected = _projected(course)
    if projected is None:
        return (tuple(range(heads)),)
    value, axis = projected
    try:
        rows = _rows_of_a_feature(course, value, axis)
    except UNREADABLE:
        return ()
    if len(rows) == heads > 1:  # each head has that feature: a projection with an axis of heads
        shape = course.tape.tensors[value].shape
        return (tuple(range(heads)),) if shape[0] == course.call.batch else ()
    if not rows or heads % len(rows):
        return ()
    samples, each = len(rows), heads // len(rows)
    if rows == list(range(rows[0], rows[0] + samples)):
        return tuple(tuple(range(at, heads, samples)) for at in range(samples))
    if rows == list(range(rows[0] % each, heads, each)):
        return tuple(tuple(range(at * each, (at + 1) * each)) for at in range(samples))
    return ()


def _projected(course: Course) -> tuple[int, int] | None:
    """Return what the projection of q makes, and the axis of its features."""
    tape, spots = course.tape, course.located.spots.get("q")
    value = spots[0][0] if spots else None
    for _ in range(_LONGEST):
        operation = tape.maker.get(value) if value is not None else None
        if operation is None or value is None:
            return None
        if operation.name in CONTRACTIONS | CONVOLUTIONS:
            return value, 1 if operation.name in CONVOLUTIONS else tape.tensors[value].dim() - 1
        value = next((v for v in operation.values() if _counts(tape.tensors[v])), None)
    return None


def _counts(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dim() > 1


def _rows_of_a_feature(course: Course, value: int, axis: int) -> list[int]:
    """Return the heads that move when one feature of q is changed in all tokens."""
    tape, located = course.tape, course.located
    wanted = [spot for spot, _ in located.spots["q"]]
    before = tape.run([value, *wanted], wide=True)
    plain = located.read("q", before)
    width = before[value].shape[axis]
    for feature in range(0, width, max(1, width // _MOST_TRIED)):
        changed = before[value].clone()
        changed.select(axis, feature).add_(before[value].abs().mean())
        after = located.read("q", tape.run(wanted, {value: changed}, wide=True))
        gap = (after - plain).abs().amax(-1).mean((0, 2))
        if bool((gap > 0).any()):
            return [int(at) for at in (gap > _MUCH * gap.max()).nonzero().flatten()]
    return []
