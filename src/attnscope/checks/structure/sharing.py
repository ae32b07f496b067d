"""Which rows of a batch read which sample of a sequence that several rows share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.comparing import gap_along
from attnscope.checks.course import course_of
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along, other_tokens

__all__ = ["Tiled", "tiled_memory"]

_BESIDE = re.compile(r"beam|hyp(o|s|$)|num_return|n_best|candidates|samples_per", re.IGNORECASE)
"""Words of searches that keep the rows of one sample beside each other."""

_REPEATS = frozenset("repeat tile expand cat repeat_interleave index_select".split())


@dataclass(frozen=True, slots=True)
class Tiled:
    """A sequence of few samples, repeated as a whole over more rows.

    rows: those of the output that one sample moves; share: how many rows each has; told: whether
    something in the code says that the rows of one sample lie beside each other.
    """

    memory: str
    main: str
    sample: int
    rows: tuple[int, ...]
    share: int
    told: bool
    source: Source
    call: Call


def tiled_memory(subject: Subject) -> Iterator[Tiled]:
    """Iterate over sequences whose samples are read by rows that lie apart."""
    main = subject.roles.main
    rows = main.batch(subject.given) if main is not None else 1
    for stream in subject.roles.streams:
        samples = stream.batch(subject.given)
        if main is None or stream is main or samples < 2 or samples >= rows or rows % samples:
            continue
        moved = _rows_moved(subject, main, stream, samples - 1)
        apart = list(range(samples - 1, rows, samples))
        call = _reader(subject, samples)
        if moved != apart or call is None:
            continue
        yield Tiled(
            stream.name,
            main.name,
            samples - 1,
            tuple(moved),
            rows // samples,
            _is_search(subject),
            _line(subject, call),
            call,
        )


def _rows_moved(subject: Subject, main: Stream, stream: Stream, sample: int) -> list[int]:
    where = torch.zeros(stream.batch(subject.given), max(stream.length(subject.given), 1))
    where[sample] = 1
    axis, _ = along(subject, subject.output, main)
    if axis is None:
        return []
    try:
        after = subject.main_output(other_tokens(subject, stream, where.bool()))
    except Skipped:
        return []
    gap = gap_along(subject.output, after, axis)
    return [row for row in range(len(gap)) if float(gap[row]) > subject.noise]


def _reader(subject: Subject, samples: int) -> Call | None:
    """Return the first call whose keys were made for fewer samples than it has rows."""
    for located in subject.base.located:
        received = {side: located.received.get(side) for side in ("q", "k")}
        if received["k"] is None or received["k"] == received["q"]:
            continue
        if samples in tuple(subject.base.tape.tensors[received["k"]].shape[:2]):
            return located.call
    return None


def _line(subject: Subject, call: Call) -> Source:
    """Return the line that repeats the keys, or of the call."""
    course = course_of(subject, call)
    if course is None:
        return call.source
    return course.line(*[op for op in course.layout_of("k") if op.name in _REPEATS])


def _is_search(subject: Subject) -> bool:
    names = [parameter.name for parameter in subject.given.parameters]
    if subject.model is not None:
        names += [name for module in subject.model.modules() for name in vars(module)]
    return any(_BESIDE.search(name) for name in names)
