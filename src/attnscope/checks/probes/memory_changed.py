"""A whole sequence is changed: does anything in the model read it, and how far does it get?"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from attnscope.calls.source import Source
from attnscope.checks.comparing import gap_of
from attnscope.checks.influence import moved
from attnscope.checks.listening import listening
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import other_tokens
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Entered", "MemoryChanged", "memory_changed"]


@dataclass(frozen=True, slots=True)
class Entered:
    """One module that was called: whether what it received moved, and the line that called it."""

    module: str
    moved: bool
    source: Source | None


@dataclass(frozen=True, slots=True, eq=False)
class MemoryChanged:
    """What follows from changing every token of one sequence.

    largest: how far an output moves at most; noise: what is rounding. reads: indices of the calls
    whose k or v move; keys, values: of those whose k, whose v moves; asks: whose q moves. entered:
    the modules that were called.
    """

    stream: Stream
    largest: float
    noise: float
    reads: frozenset[int] = frozenset()
    asks: frozenset[int] = frozenset()
    entered: tuple[Entered, ...] = field(default=())
    values: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()

    @property
    def is_still(self) -> bool:
        """Whether no output moves."""
        return self.largest <= self.noise

    @property
    def is_idle(self) -> bool:
        """Whether no output moves, and no other sequence's queries read this one."""
        return self.is_still and not self.reads - self.asks

    def lost_at(self, module: str) -> Entered | None:
        """Return the outermost module around `module` that no longer gets the sequence."""
        parts = module.split(".")
        for size in range(1, len(parts) + 1):
            path = ".".join(parts[:size])
            calls = [each for each in self.entered if each.module == path]
            if calls and not any(each.moved for each in calls):
                return calls[0]
        return None


@probe
def memory_changed(subject: Subject) -> tuple[MemoryChanged, ...]:
    """Change each sequence as a whole, one after the other, in eval mode.

    Raises:
        Skipped: the model makes no call of attention, or has no sequence among its inputs.
    """
    if not subject.calls:
        raise Skipped("no attention call was seen")
    if not subject.roles.streams:
        raise Skipped("no input is a sequence: give inputs that are")
    found = []
    for stream in subject.roles.streams:
        try:
            given = _changed(subject, stream)
            found.append(_follow(subject, stream, given))
        except Skipped:
            continue
    return tuple(found)


def _changed(subject: Subject, stream: Stream) -> Given:
    length = max(stream.length(subject.given), 1)
    where = torch.ones(stream.batch(subject.given), length, dtype=torch.bool)
    return other_tokens(subject, stream, where)


def _follow(subject: Subject, stream: Stream, given: Given) -> MemoryChanged:
    before, after = subject.outputs(), subject.outputs(given)
    gaps = [gap_of(before[name], after[name]) for name in before if name in after]
    largest = max((float(gap.max()) for gap in gaps if gap.numel()), default=0.0)
    reached = _reached(subject, stream, given)
    reads = reached["k"] | reached["v"]
    entered: tuple[Entered, ...] = ()
    if largest <= subject.noise and subject.model is not None:
        entered = _entered(subject, given)
    return MemoryChanged(
        stream,
        largest,
        subject.noise,
        reads,
        reached["q"],
        entered,
        values=reached["v"],
        keys=reached["k"],
    )


def _reached(subject: Subject, stream: Stream, given: Given) -> dict[str, frozenset[int]]:
    """Return the calls whose q, k or v move, of calls that can't be located all three."""
    value = subject.input_value(stream.name)
    if value is None:
        return dict.fromkeys("qkv", frozenset())
    located = subject.base.located
    wanted = {v for each in located for side in "qkv" for v, _ in each.spots.get(side, [])}
    try:
        entries = moved(subject.base.tape, {value: given.values[stream.name]}, wanted)
    except UNREADABLE:
        return dict.fromkeys("qkv", frozenset(call.index for call in subject.calls))
    found: dict[str, set[int]] = {side: set() for side in "qkv"}
    for each in located:
        for side, calls in found.items():
            spots = each.spots.get(side)
            touched = [entries[v] for v, _ in spots or () if v in entries]
            if spots is None or any(bool(which.any()) for which in touched):
                calls.add(each.call.index)
    unlocated = {call.index for call in subject.calls if subject.located(call) is None}
    return {
        side: frozenset(calls if side == "q" else calls | unlocated)
        for side, calls in found.items()
    }


def _entered(subject: Subject, given: Given) -> tuple[Entered, ...]:
    runs = []
    for each in (subject.given, given):
        with listening(subject.model) as heard:
            subject.raw(each)
        runs.append(heard)
    pairs = zip(*runs, strict=False)
    return tuple(
        Entered(one.module, one.received != other.received, one.source) for one, other in pairs
    )
