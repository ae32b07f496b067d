"""Where padding enters attention: the first call whose real queries see keys that moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.evidence import Spot
from attnscope.checks.masking.seen import NOTHING, Seen, seen_by
from attnscope.checks.subject.subject import Subject

__all__ = ["Entry", "entries_of_calls", "rows_moved"]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Where padding enters attention: a call, and how much weight real queries give to it.

    queries: how many queries moved that had not moved before; weight: the largest of theirs on keys
    that are padding; sample, query: where that is.
    """

    seen: Seen
    queries: int
    weight: float
    sample: int
    query: int


def entries_of_calls(subject: Subject, real: Tensor, entries: dict[int, Tensor]) -> Iterator[Entry]:
    """Iterate over calls in which queries that had not moved see keys that are padding."""
    for call in subject.calls:
        seen = seen_by(subject, call)
        spots = seen.course.located.spots if seen.course is not None else {}
        if seen.weights is None or not {"q", "k", "v", "context"} <= set(spots):
            continue
        keys = rows_moved(spots["k"], entries, call.batch, call.keys)
        keys = keys | rows_moved(spots["v"], entries, call.batch, call.keys)
        if not bool(keys.any()):
            continue
        if tuple(keys.shape) == tuple(real.shape) and bool((keys.sum(1) > (~real).sum(1)).any()):
            return  # something before has mixed tokens already
        queries = rows_moved(spots["q"], entries, call.batch, call.queries)
        out = rows_moved(spots["context"], entries, call.batch, call.queries)
        weight = seen.weights.nan_to_num(0.0).amax(1)  # over heads: (batch, queries, keys)
        mass = weight.masked_fill(~keys[:, None], 0.0).amax(-1)
        leaking = out & ~queries & (mass > NOTHING)
        if bool(leaking.any()):
            mass = mass.masked_fill(~leaking, 0.0)
            place = int(mass.argmax())
            sample, query = divmod(place, call.queries)
            yield Entry(seen, int(leaking.sum()), float(mass.max()), sample, query)


def rows_moved(
    spots: list[tuple[int, Spot]], entries: dict[int, Tensor], batch: int, length: int
) -> Tensor:
    """Return which rows of a stage moved in any head and feature: (batch, length)."""
    ((value, spot),) = spots
    if value not in entries:
        return torch.zeros(batch, length, dtype=torch.bool)
    canonical: Tensor = spot.read(entries[value].double()).nan_to_num(1.0)
    return (canonical != 0).any(-1).any(1).expand(batch, length)
