"""Padded keys are taken out of single calls: do real queries give them weight, whatever they hold?

Padding that is multiplied by 0 holds the same whatever was there, and still takes its share of the
softmax: the more of it, the less is left for real keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.masking.entering import Entry, rows_moved
from attnscope.checks.masking.seen import NOTHING, Seen, seen_by
from attnscope.checks.subject.roles import Padding, Stream
from attnscope.checks.subject.subject import Subject

__all__ = ["TakenOut", "is_read_by_another", "taken_out"]


@dataclass(frozen=True, slots=True, eq=False)
class TakenOut:
    """One call, and what its context would be without padded keys.

    entry: how much weight its real queries give to padding; value: the context on the tape;
    context: what it would be.
    """

    entry: Entry
    value: int
    context: Tensor


def is_read_by_another(subject: Subject, stream: Stream) -> bool:
    """Return whether outputs belong to another sequence than this one."""
    main = subject.roles.main
    return stream.memory or (main is not None and main.name != stream.name)


def taken_out(
    subject: Subject,
    padding: Padding,
    real: Tensor,
    entries: dict[int, Tensor],
    calls: list[Call],
) -> Iterator[TakenOut]:
    """Iterate over calls whose keys are the tokens of a sequence and give weight to its padding.

    entries: what moves when real tokens alone are changed; it shows which keys are padding.
    """
    for call in calls:
        seen = seen_by(subject, call)
        spots = seen.course.located.spots if seen.course is not None else {}
        if tuple(real.shape) != (call.batch, call.keys) or not {"k", "v", "context"} <= set(spots):
            continue
        rows = rows_moved(spots["k"], entries, *real.shape)
        rows = rows | rows_moved(spots["v"], entries, *real.shape)
        if seen.weights is None or not _aligned(rows, real):
            continue
        queries = _queries(subject, padding, call, real)
        found = _of_call(subject, seen, real, queries)
        if found is not None:
            yield found


def _aligned(rows: Tensor, real: Tensor) -> bool:
    """Return whether keys follow tokens one by one: real ones move their own keys alone."""
    return tuple(rows.shape) == tuple(real.shape) and torch.equal(rows, real)


def _queries(subject: Subject, padding: Padding, call: Call, real: Tensor) -> Tensor:
    """Return which queries are real, (batch, queries)."""
    aside = is_read_by_another(subject, padding.stream)
    own, main = None if aside else real, subject.roles.main
    if aside and main is not None and call.queries == main.length(subject.given):
        told = subject.roles.padding_of(main)
        own = told.real(subject.given) if told is not None and told.given else None
    if own is None or tuple(own.shape) != (call.batch, call.queries):
        return torch.ones(call.batch, call.queries, dtype=torch.bool)
    return own


def _of_call(subject: Subject, seen: Seen, real: Tensor, queries: Tensor) -> TakenOut | None:
    weights, course, call = seen.weights, seen.course, seen.call
    if weights is None or course is None or not weights.isfinite().all():
        return None
    padded = ~real[:, None, None, :]
    share = weights.masked_fill(~padded, 0.0).sum(-1)  # (batch, heads, queries)
    left = weights.masked_fill(padded, 0.0)
    mass = left.sum(-1, keepdim=True)
    hit = (share > NOTHING) & queries[:, None] & (mass[..., 0] > NOTHING)
    if not bool(hit.any()):
        return None
    context = subject.base.stage_of(course.located, "context")
    v = subject.base.stage_of(course.located, "v")
    other = call.recipe.weigh(left / mass.clamp_min(NOTHING), v)
    other = torch.where(hit[..., None], other, context)
    worst = share.masked_fill(~hit, 0.0).amax(1)
    sample, query = divmod(int(worst.argmax()), call.queries)
    ((value, spot),) = course.located.spots["context"]
    count = int(hit.any(1).sum())
    entry = Entry(seen, count, float(worst.max()), sample, query)
    return TakenOut(entry, value, spot.write(other))
