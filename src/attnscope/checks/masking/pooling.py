"""The operation behind all attention that takes padding into what is real: a mean, a flatten."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.masking.refilling import refilled
from attnscope.checks.masking.seen import seen_by
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject

__all__ = ["pooling_of"]

_MIXERS = (
    "conv",
    "lstm",
    "gru",
    "rnn",
    "fft",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "cumsum",
)
"""Operations that mix tokens and are no attention: what they mix is not judged."""


def pooling_of(subject: Subject, stream: Stream, real: Tensor) -> Operation | None:
    """Return the operation behind all calls that first mixes padding into what is real."""
    sample = int((~real).any(1).nonzero()[0])
    only = torch.zeros_like(real)
    only[sample] = ~real[sample]
    tape = subject.base.tape
    entries = moved(tape, refilled(subject, stream, only))
    courses = [seen_by(subject, call).course for call in subject.calls]
    last = max((c.main[-1].defines[0] for c in courses if c is not None and c.main), default=-1)
    late = {v: e for v, e in entries.items() if v > last}
    found = first_mixing(tape, late, Allowed(_padded_rows(subject, entries, real, sample)))
    return None if found is None or found.name.startswith(_MIXERS) else found


def _padded_rows(subject: Subject, entries: dict[int, Tensor], real: Tensor, sample: int) -> Tensor:
    """Return which tokens of the sample are padding where attention ends, (queries,).

    These are more than the inputs have where a token was put in front of them.
    """
    for call in reversed(subject.calls):
        course = seen_by(subject, call).course
        spots = course.located.spots.get("context", []) if course is not None else []
        if len(spots) != 1 or call.queries < real.shape[1] or call.batch != real.shape[0]:
            continue
        ((value, spot),) = spots
        if value in entries:
            rows: Tensor = (spot.read(entries[value].double())[sample] != 0).any(-1).any(0)
            if bool(rows.any()) and not bool(rows.all()):
                return rows
    return ~real[sample]
