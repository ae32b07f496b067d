"""A result that is read where a causal mask lets nothing in: at the first position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.influence import moved
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import other_tokens
from attnscope.checks.unreadable import UNREADABLE
from attnscope.differ.sides.located import Located

__all__ = ["FirstAlone", "first_alone"]

_LEAST = 3
"""Tokens from which on a sequence is one."""


_SELECTS = frozenset(
    "getitem select narrow index_select gather take take_along_dim unbind split chunk "
    "tensor_split split_with_sizes".split()
)
"""What reads some positions and leaves the others."""


@dataclass(frozen=True, slots=True, eq=False)
class FirstAlone:
    """A model of whose tokens the first alone reaches an output; none, behind a learned one.

    call: an attention that hides the others from the first position; source: the line that reads
    that; hidden: how many tokens move no output; moved: how far outputs move with the first token.
    """

    call: Call
    hidden: int
    moved: float
    source: Source


def first_alone(subject: Subject, stream: Stream) -> FirstAlone | None:
    """Return what reads the first of many positions that attention fills for the later ones alone.

    No output moves with any other token, in float64; in every attention the context of the first
    query doesn't either, and that of the last one does.
    """
    length = stream.length(subject.given)
    if length < _LEAST or not subject.base.is_faithful:
        return None
    steps = torch.arange(length)
    for hidden in (steps >= 0, steps > 0):
        found = _read(subject, stream, hidden)
        if found is not None:
            return found
    return None


def _read(subject: Subject, stream: Stream, hidden: Tensor) -> FirstAlone | None:
    value, tape, length = subject.input_value(stream.name), subject.base.tape, len(hidden)
    ends = [tape.value_of(each) for each in subject.base.outputs.values()]
    if value is None or None in ends or not ends:
        return None
    try:
        entries = moved(tape, {value: _changed(subject, stream, hidden).values[stream.name]})
        if any(bool(entries[end].any()) for end in ends if end in entries):
            return None
        readers = [each for each in subject.base.located if each.call.queries >= length]
        hiding = [each for each in readers if _hides_all(each, entries)]
    except UNREADABLE:
        return None
    line = _line(subject, [end for end in ends if end is not None], entries)
    if not hiding or len(hiding) < len(readers) or line is None:
        return None
    after = subject.main_output(_changed(subject, stream, ~hidden))
    far = float((after - subject.main_output()).abs().nan_to_num(0.0, 0.0, 0.0).max())
    if far <= subject.noise and not bool(hidden.all()):
        return None
    return FirstAlone(hiding[-1].call, int(hidden.sum()), far, line)


def _changed(subject: Subject, stream: Stream, where: Tensor) -> Given:
    samples = where.expand(stream.batch(subject.given), len(where))
    return other_tokens(subject, stream, samples)


def _hides_all(located: Located, entries: Mapping[int, Tensor]) -> bool:
    """Return whether the last query of a call reads what changed, and the first one doesn't."""
    spots = located.spots.get("context")
    if not spots or any(value not in entries for value, _ in spots):
        return False
    which = located.read("context", {value: entries[value] for value, _ in spots})
    return bool(which[:, :, -1].any()) and not bool(which[:, :, 0].any())


def _line(subject: Subject, ends: Iterable[int], entries: Mapping[int, Tensor]) -> Source | None:
    """Return the last line on the way to the outputs that leaves behind all that moved.

    None: it chooses no positions; a factor of zero, say.
    """
    for operation in reversed(subject.base.tape.program.needed(tuple(ends), {})):
        read = any(bool(entries[v].any()) for v in operation.values() if v in entries)
        kept = any(bool(entries[v].any()) for v in operation.defines if v in entries)
        if read and not kept:
            return operation.source if operation.name in _SELECTS else None
    return None
