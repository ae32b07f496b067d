"""Of which sequences the queries and keys of an attention are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.capture.trail import LAYOUT
from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.tokens import Tokens, value_in
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side

__all__ = [
    "FLAT",
    "STEPS",
    "carried_by",
    "is_own",
    "is_plain",
    "rearranges",
    "side_by_side",
    "streams_of",
    "together",
]

STEPS = 6
"""Rearrangements that are followed to where samples and tokens are apart."""

FLAT = 2
"""Axes of a tensor in which samples and tokens are one."""


def is_own(
    subject: Subject, side: Side, calls: list[Located], given: Mapping[int, Tokens], rows: Tokens
) -> bool:
    """Return whether queries and keys are tokens of one sequence: made of the same inputs."""
    if {tokens.count for tokens in given.values()} != {rows.count}:
        return False
    if _is_bare(subject):
        return True
    asks = calls[0].received.get("q")
    if asks is None:
        asks = calls[0].spots["q"][0][0]
    if asks in given or together(side, asks) in given:
        return True
    found = (value_in(side, subject.given, each.name) for each in subject.roles.streams)
    streams = {value for value in found if value is not None}
    if len(streams) < 2:
        return True
    return all(_made_of(side, asks, streams) == _made_of(side, value, streams) for value in given)


def side_by_side(
    subject: Subject, side: Side, calls: list[Located], rows: Tokens, reads: frozenset[str]
) -> frozenset[str]:
    """Return the sequences of queries and keys, if all are of one length and none is a memory."""
    asks = calls[0].received.get("q", calls[0].spots["q"][0][0])
    named = reads | streams_of(subject, side, [asks])
    streams = [s for s in subject.roles.streams if s.name in named]
    fit = all(not s.memory and s.length(subject.given) == rows.count for s in streams)
    return named if fit else frozenset()


def _is_bare(subject: Subject) -> bool:
    """Return whether q, k and v are handed over as they are."""
    main = subject.roles.main
    return main is not None and main.kind == "heads"


def carried_by(subject: Subject, side: Side, given: Iterable[int]) -> frozenset[str]:
    """Return the names of the sequences whose tokens some values are: not what these have read.

    What came through an attention alone was read; empty where all did, as without a residual.
    """
    read = {value for each in side.located for value, _ in each.spots.get("context", ())}
    return streams_of(subject, side, given, {value: side.tape.tensors[value] for value in read})


def streams_of(
    subject: Subject, side: Side, given: Iterable[int], held: Mapping[int, Tensor] | None = None
) -> frozenset[str]:
    """Return the names of the sequences that some values are made of, not going behind `held`."""
    known = {
        value: stream.name
        for stream in subject.roles.streams
        if (value := value_in(side, subject.given, stream.name)) is not None
    }
    made = (v for each in given for v in _made_of(side, each, set(known), held or {}))
    found = frozenset(known[v] for v in made)
    main = subject.roles.main
    return found | {main.name} if main is not None and _is_bare(subject) else found


def _made_of(
    side: Side, value: int, inputs: set[int], held: Mapping[int, Tensor] = MappingProxyType({})
) -> set[int]:
    """Return which inputs a value is made from, not going behind `held`."""
    read = {
        each for operation in side.tape.program.needed((value,), held) for each in operation.needs
    }
    return inputs & {value, *read}


def together(side: Side, value: int) -> int:
    """Return what is received as it was before, where its axes can't be told apart here."""
    tape, found = side.tape, value
    for _ in range(STEPS):
        maker = tape.maker.get(found)
        if is_plain(tape.tensors[found]) or maker is None:
            break
        before = next(iter(maker.values()), found)
        if not rearranges(tape, maker, before):
            break
        found = before
    return found if tape.tensors[found].dim() > FLAT else value


def is_plain(tensor: Tensor) -> bool:
    """Return whether samples and tokens are axes of their own, and of other sizes."""
    return tensor.dim() > FLAT and tensor.shape[0] != tensor.shape[1]


def rearranges(tape: Tape, operation: Operation, value: int) -> bool:
    """Return whether an operation only brings the entries of a value into another order."""
    sizes = {tape.tensors[each].numel() for each in (value, *operation.defines[:1])}
    return operation.name in LAYOUT and len(sizes) == 1
