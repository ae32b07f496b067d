"""Causal masks where there are fewer queries than keys: the corner at which they begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import course_on
from attnscope.checks.influence import differs
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import other_tokens
from attnscope.checks.unreadable import UNREADABLE
from attnscope.checks.visibility.making import Pairs, line_of_making
from attnscope.checks.visibility.tokens import value_in
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side
from attnscope.errors import AttnscopeError

__all__ = ["Misalignment", "misaligned", "misaligned_in_base"]

_CLOSE_TO_ZERO = 1e-3
_WEIGHT = 1e-12


@dataclass(frozen=True, slots=True)
class Misalignment:
    """A call whose mask begins at the wrong corner.

    queries, keys: numbers. offset: which key is the first query's own; seen: the last key that the
    last query sees, own: its own one.
    """

    call: Call
    queries: int
    keys: int
    offset: int
    seen: int
    own: int
    line: Source


def misaligned(side: Side, located: Located, offset: int) -> Misalignment | None:
    """Return what is wrong with the alignment of a call whose first query is key `offset`."""
    shown = _shown(located)
    if shown is None:
        return None
    queries, keys = shown.shape
    own = torch.arange(queries) + offset
    if keys <= queries or int(own[-1]) >= keys or not bool(shown.any(-1).all()):
        return None
    edges = keys - 1 - shown.flip(-1).int().argmax(-1)
    corners = {0, keys - queries}
    begins = int(edges[0])
    if begins == offset or begins not in corners or offset not in corners | {begins + offset}:
        return None
    if not torch.equal(edges, torch.arange(queries) + begins):
        return None
    key = torch.arange(keys)
    firsts = shown.int().argmax(-1)
    if not torch.equal(shown, (key >= firsts[:, None]) & (key <= edges[:, None])):
        return None  # no staircase: several sets of keys side by side
    past = key <= own[:, None]
    wrong = past & ~shown if begins < offset else shown & ~past
    like, unlike = (~shown & ~past, shown) if begins < offset else (shown & past, ~shown)
    like = like if bool(like.any()) else wrong
    course = course_on(side.tape, located)
    line = located.call.source
    if course is not None:
        pairs = Pairs(wrong[None, None], like[None, None], unlike[None, None])
        line = line_of_making(course, [pairs], hides=True)
    return Misalignment(located.call, queries, keys, offset, int(edges[-1]), int(own[-1]), line)


def misaligned_in_base(subject: Subject, stream: Stream) -> Iterator[Misalignment]:
    """Iterate over the misaligned calls of the base run, in which a sequence attends to itself."""
    side = subject.base
    calls = [
        each
        for each in side.located
        if 1 < each.call.queries < each.call.keys
        and each.call.queries == stream.length(subject.given)
    ]
    if not calls:
        return
    for located in calls:
        offset = _first_own_key(subject, stream, located)
        found = misaligned(side, located, offset) if offset is not None else None
        if found is None or (_strictly_past(found) and _keys_hold_more(subject, located, found)):
            continue
        yield found


def _strictly_past(found: Misalignment) -> bool:
    """Return whether each query sees all keys before its own: `own` is the last query's."""
    return found.seen == found.own - 1


def _keys_hold_more(subject: Subject, located: Located, found: Misalignment) -> bool:
    """Return whether own keys hold an input that no query is told: it is what is to be foretold."""
    tape = subject.base.tape
    values = [value for end in "qk" for value, _ in located.spots[end]]
    for name in subject.given.values:
        start = subject.input_value(name)
        if start is None or tape.tensors[start].numel() < found.queries:
            continue
        given = tape.tensors[start]
        others = given.flatten().roll(1).view(given.shape)
        try:
            before = tape.run(values, wide=True)
            after = tape.run(values, {start: others}, wide=True)
            q, k = (differs(located.read(end, before), located.read(end, after)) for end in "qk")
        except UNREADABLE:
            continue
        if bool(k[..., found.offset :, :].any()) and not bool(q.any()):
            return True
    return False


def _first_own_key(subject: Subject, stream: Stream, located: Located) -> int | None:
    """Return which key the first token of a sequence is; None: its tokens are no keys."""
    tape, start = subject.base.tape, value_in(subject.base, subject.given, stream.name)
    length = stream.length(subject.given)
    where = (torch.arange(length) == length - 1).expand(stream.batch(subject.given), length)
    values = [value for value, _ in located.spots["k"]]
    if start is None:
        return None
    try:
        changed = other_tokens(subject, stream, where).values[stream.name]
        before = located.read("k", tape.run(values, wide=True))
        after = located.read("k", tape.run(values, {start: changed}, wide=True))
    except (AttnscopeError, RuntimeError, Skipped):
        return None
    rows = differs(before, after).any(-1).flatten(0, 1).any(0).nonzero().flatten()
    return int(rows[-1]) - (length - 1) if len(rows) and int(rows[-1]) >= length - 1 else None


def _shown(located: Located) -> Tensor | None:
    """Return which keys each query sees in any head of any sample, (queries, keys)."""
    try:
        q, k, v = (located.value(name).detach().double() for name in ("q", "k", "v"))
        weights = located.rerun("weights", q * _CLOSE_TO_ZERO, k, v)
    except (AttnscopeError, RuntimeError):
        return None
    return (weights.abs() > _WEIGHT).flatten(0, 1).any(0)
