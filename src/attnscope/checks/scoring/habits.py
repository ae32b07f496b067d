"""What single heads do: nothing, the same as another, rest on one key, look at themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.course import course_of
from attnscope.checks.scoring.folded import heads_of_samples
from attnscope.checks.scoring.reading import recorded_weights
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Head", "dead", "diagonal", "equal", "resting"]

_MOST_HEADS = 512
"""Heads of a model that are taken out one by one."""

_NOTHING = 1e-6
"""Share of the largest head's contribution that is none."""

_EQUAL = 1e-5
_SINK = 0.6
"""Mean weight on one key from which a head rests on it."""

_OWN = 0.9
"""Mean weight on the own position from which a head looks at itself."""

_FEWEST_KEYS = 4


@dataclass(frozen=True, slots=True)
class Head:
    """One head, and the number that says what it does; others: heads that do the same; key: it."""

    call: Call
    head: int
    value: float
    others: tuple[int, ...] = ()
    key: int | None = None


def dead(subject: Subject) -> Iterator[Head]:
    """Iterate over heads whose context does not change what the output projection returns."""
    left = _MOST_HEADS
    for located in subject.base.located:
        call = located.call
        if call.heads < 2 or left < call.heads or "context" not in located.spots:
            continue
        left -= call.heads
        try:
            parts = _contributions(subject, call)
        except UNREADABLE:
            continue
        largest = max(parts)
        if largest > 0:
            for head, part in enumerate(parts):
                if part <= _NOTHING * largest:
                    yield Head(call, head, part / largest)


def _contributions(subject: Subject, call: Call) -> list[float]:
    """Return how far the output of a call moves when each head's context is taken away."""
    located = subject.located(call)
    if located is None:
        return [0.0]
    tape = subject.base.tape
    values = [value for value, _ in located.spots["context"]]
    context = located.read("context", tape.run(values, wide=True))
    if located.output is None:
        return [float(context[:, head].abs().max()) for head in range(call.heads)]
    given = located.write("context", context)
    before = tape.run([located.output], given, wide=True)[located.output]
    parts = []
    for head in range(call.heads):
        without = context.clone()
        without[:, head] = 0.0
        after = tape.run([located.output], located.write("context", without), wide=True)
        parts.append(float((before - after[located.output]).abs().max()))
    return parts


def equal(subject: Subject) -> Iterator[Head]:
    """Iterate over heads whose weights and context are those of another head, the first of each."""
    for calls in _together(subject):
        try:
            contexts = torch.cat([call.context().detach().double() for call in calls], 1)
        except UNREADABLE:
            continue
        heads = contexts.shape[1]
        largest = float(contexts.abs().nan_to_num().max())
        if heads < 2 or heads > _MOST_HEADS or largest == 0 or calls[0].queries < 2:
            continue
        for head in _twins(calls, contexts, largest):
            others = tuple(each for each in head.others if _in_one_sample(subject, head, each))
            if others:
                yield replace(head, others=others)


def _in_one_sample(subject: Subject, head: Head, other: int) -> bool:
    """Return whether two heads of a call are one sample's, where samples are folded into them."""
    course = course_of(subject, head.call) if head.call.heads > 1 else None
    if course is None:
        return True
    return any({head.head, other} <= set(own) for own in heads_of_samples(course))


def _twins(calls: Sequence[Call], contexts: Tensor, largest: float) -> Iterator[Head]:
    """Iterate over the first of each set of equal heads; a context of zeros is none."""
    flat = contexts.movedim(1, 0).flatten(1)
    same: dict[int, list[int]] = {}
    for a, b in combinations(range(len(flat)), 2):
        gap = float((flat[a] - flat[b]).abs().max())
        empty = float(flat[a].abs().max()) <= _NOTHING * largest
        if (
            gap <= _EQUAL * largest
            and not empty
            and not any(a in others for others in same.values())
        ):
            same.setdefault(a, []).append(b)
    for head, others in same.items():
        yield Head(calls[0], head, 1.0, tuple(others))


def _together(subject: Subject) -> Iterator[list[Call]]:
    """Iterate over calls that are one attention: single ones, and loops over single heads."""

    def kind(call: Call) -> tuple[object, ...]:
        if call.heads > 1:
            return (call.index,)
        located = subject.located(call)
        received = tuple(located.received.items()) if located is not None else (call.index,)
        return (call.batch, call.queries, call.keys, call.value_dim, received)

    for _, calls in groupby(subject.calls, key=kind):
        yield list(calls)


def resting(subject: Subject) -> Iterator[Head]:
    """Iterate over heads that give most weight to one and the same key."""
    for call, weights in _readable(subject):
        rows = weights[:, :, _FEWEST_KEYS - 1 :]  # earlier ones of a causal call have no choice
        if not rows.shape[2]:
            continue
        mean = rows.mean((0, 2))
        for head in range(call.heads):
            share, key = mean[head].max(-1)
            if float(share) >= _SINK:
                yield Head(call, head, float(share), key=int(key))


def diagonal(subject: Subject) -> Iterator[Head]:
    """Iterate over heads in which each position gives nearly all weight to itself."""
    for call, weights in _readable(subject):
        if call.queries != call.keys:
            continue
        own = weights.diagonal(dim1=-2, dim2=-1)[..., 1:].mean((0, 2))
        for head in range(call.heads):
            if float(own[head]) >= _OWN:
                yield Head(call, head, float(own[head]))


def _readable(subject: Subject) -> Iterator[tuple[Call, Tensor]]:
    for call in subject.calls:
        if call.keys < _FEWEST_KEYS or call.queries < 2:
            continue
        weights = recorded_weights(subject, call)
        if weights is not None and weights.dim() == 4:
            yield call, weights.nan_to_num(0.0, 0.0, 0.0)
