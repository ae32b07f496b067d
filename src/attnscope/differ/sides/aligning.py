"""Which calls of two implementations are the same attention: by order, shape and result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from attnscope.differ.sides.located import AXES, Located
from attnscope.differ.sides.regrouping import regrouping
from attnscope.differ.sides.seen import Seen
from attnscope.differ.sides.side import Side
from attnscope.differ.walk.judging import Tolerance, compare

__all__ = ["Alignment", "Pair", "align"]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The same attention on both sides; number: its place in the reference's order."""

    number: int
    candidate: Seen
    reference: Seen


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Pairs in the order of the reference, and the calls without a partner."""

    pairs: tuple[Pair, ...]
    missing: tuple[Located, ...] = ()
    extra: tuple[Located, ...] = ()
    reordered: bool = False

    def to_json(self) -> dict[str, object]:
        """Return how many calls were paired, and the modules of those that were not."""
        return {
            "pairs": len(self.pairs),
            "missing": [each.call.module for each in self.missing],
            "extra": [each.call.module for each in self.extra],
            "reordered": self.reordered,
        }


def align(candidate: Side, reference: Side, tolerance: Tolerance) -> Alignment:
    """Pair the calls of two sides."""
    ours, theirs = candidate.located, reference.located
    if len(ours) == len(theirs):
        ours = [_regrouped(mine, other) for mine, other in zip(ours, theirs, strict=True)]
    if len(ours) == len(theirs):
        if [each.shape for each in ours] == [each.shape for each in theirs]:
            return _by_result(ours, theirs, tolerance)
        if sorted(each.shape for each in ours) != sorted(each.shape for each in theirs):
            pairs = zip(ours, theirs, strict=True)
            return Alignment(tuple(Pair(at, *pair) for at, pair in enumerate(pairs)))
    return _by_layer(ours, theirs) or _in_order(ours, theirs)


def _by_layer(ours: Sequence[Located], theirs: Sequence[Located]) -> Alignment | None:
    """Pair calls by the numbers in their modules' paths, where a side lacks some of them."""
    left, right = ({_layer(each): each for each in side} for side in (ours, theirs))
    if len(left) < len(ours) or len(right) < len(theirs) or len(ours) == len(theirs):
        return None
    both = [key for key in right if key in left]
    if len(both) < min(len(left), len(right)):
        return None
    numbers = {key: at for at, key in enumerate(right)}
    pairs = tuple(Pair(numbers[key], left[key], right[key]) for key in both)
    missing = tuple(each for key, each in right.items() if key not in left)
    extra = tuple(each for key, each in left.items() if key not in right)
    return Alignment(pairs, missing, extra)


def _layer(each: Located) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the numbers in the path of a call's module, and its shape."""
    return tuple(part for part in each.call.module.split(".") if part.isdigit()), each.shape


def _regrouped(ours: Located, theirs: Located) -> Located:
    """Read the axes of a call as its partner groups them, where it groups them otherwise."""
    if len(ours.calls) > 1:
        return ours
    found = regrouping(ours.call, theirs.shape, theirs.call.kv_heads)
    if found is None:
        return ours
    return Located(ours.calls, ours.tape, ours.weights, regrouped=found)


def _by_result(
    ours: Sequence[Located], theirs: Sequence[Located], tolerance: Tolerance
) -> Alignment:
    """Pair in order, but for calls that give each other's result."""
    order = list(range(len(ours)))
    wrong = [at for at in order if not _same(ours[at], theirs[at], tolerance)]
    for at in wrong:
        for other in wrong:
            if order[at] == at and other != at and order[other] == other:
                there = _same(ours[other], theirs[at], tolerance)
                if there and _same(ours[at], theirs[other], tolerance):
                    order[at], order[other] = other, at
    pairs = tuple(Pair(at, ours[order[at]], theirs[at]) for at in range(len(ours)))
    return Alignment(pairs, reordered=order != list(range(len(ours))))


def _same(ours: Located, theirs: Located, tolerance: Tolerance) -> bool:
    if ours.shape != theirs.shape:
        return False
    return compare(ours.value("context"), theirs.value("context"), tolerance).excess < _NEAR


_NEAR = 1e4
"""Multiples of the tolerance up to which results recorded in the model's type are the same."""


def _in_order(ours: Sequence[Located], theirs: Sequence[Located]) -> Alignment:
    """Walk through both orders; join calls that together have the shape of the other side's."""
    pairs: list[Pair] = []
    missing: list[Located] = []
    extra: list[Located] = []
    left = list(ours)
    waiting = list(theirs)
    while waiting:
        met = _first_match(left, waiting)
        if met is None:
            missing.append(waiting.pop(0))
            continue
        candidate, reference, used, spent, skipped = met
        extra.extend(left[:skipped])
        left = left[skipped + used :]
        waiting = waiting[spent:]
        pairs.append(Pair(len(pairs) + len(missing), candidate, reference))
    return Alignment(tuple(pairs), tuple(missing), tuple(extra) + tuple(left))


def _first_match(
    ours: Sequence[Located], theirs: Sequence[Located]
) -> tuple[Located, Located, int, int, int] | None:
    """Return the first calls of ours that match the next of theirs, with how many each took."""
    for skipped in range(len(ours)):
        rest = ours[skipped:]
        if rest[0].shape == theirs[0].shape:
            return rest[0], theirs[0], 1, 1, skipped
        joined = _joined(rest, theirs[0].shape)
        if joined is not None:
            return joined, theirs[0], len(joined.calls), 1, skipped
        other = _joined(theirs, rest[0].shape)
        if other is not None:
            return rest[0], other, 1, len(other.calls), skipped
    return None


def _joined(calls: Sequence[Located], shape: tuple[int, ...]) -> Located | None:
    """Return the first calls as one where together they have `shape`."""
    first = calls[0]
    for axis, at in AXES.items():
        taken: list[Located] = []
        for each in calls:
            alike = all(each.shape[i] == shape[i] for i in range(len(shape)) if i != at)
            if not alike or each.call.step != first.call.step:
                break
            taken.append(each)
            total = sum(one.shape[at] for one in taken)
            if total == shape[at] and len(taken) > 1:
                flat = tuple(call for one in taken for call in one.calls)
                return Located(flat, first.tape, first.weights, axis)
            if total > shape[at]:
                break
    return None
