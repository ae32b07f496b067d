"""Reshapes that cut across axes: what was one index is spread over several, in pieces.

A reshape merges neighbouring axes, or takes one apart. Where it does neither, (batch, heads,
length, head_dim) as (batch, length, heads · head_dim), each index of the result holds pieces of
several indices of what came in, whatever the axes mean.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.capture.trail import LAYOUT
from attnscope.checks.course import way_out
from attnscope.checks.operations import RESHAPES
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["Ragged", "is_ragged", "ragged_of"]

_ALONG = LAYOUT | frozenset(
    "add add_ mul mul_ sub div rdiv linear conv1d conv2d matmul layer_norm rms_norm group_norm "
    "dropout pow rsqrt addmm einsum cat".split()
)
"""What leaves tokens where they are, or joins some: passed on the way back to a reshape."""

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Ragged:
    """A reshape that cuts across axes; side: "q", "k", "v", or "out" on the way out.

    inside: whether it lies between the projections, where heads are split and merged.
    """

    operation: Operation
    side: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    inside: bool


def is_ragged(before: Collection[int], after: Collection[int]) -> bool:
    """Return whether axes of these sizes, reshaped, are neither merged nor taken apart.

    Merging and taking apart is all there is where the places between axes, counted in entries from
    the front, can be put in an order in which each divides the next.
    """
    places = sorted(
        {1, *itertools.accumulate(before, _times), *itertools.accumulate(after, _times)}
    )
    return any(second % first for first, second in itertools.pairwise(places) if first)


def _times(a: int, b: int) -> int:
    return a * b


def ragged_of(subject: Subject, located: Located) -> Ragged | None:
    """Return the first reshape around a call that cuts across axes, on the way in, then out."""
    tape = subject.base.tape
    for side in ("q", "k", "v"):
        received = located.received.get(side)
        inside = True
        for operation in _way_in(tape, located, side):
            found = _read(tape, operation, side, inside=inside)
            if found is not None:
                return found
            inside = inside and received not in tuple(operation.values())
    for operation in way_out(tape, located):
        found = _read(tape, operation, "out", inside=True)
        if found is not None:
            return found
    return None


def _read(tape: Tape, operation: Operation, side: str, *, inside: bool) -> Ragged | None:
    given = next(operation.values(), None)
    if operation.name not in RESHAPES or given is None:
        return None
    made = tape.tensors[operation.defines[0]]
    before, after = tuple(tape.tensors[given].shape), tuple(made.shape)
    if not made.is_floating_point() or not made.numel() or not is_ragged(before, after):
        return None
    return Ragged(operation, side, before, after, inside)


def _way_in(tape: Tape, located: Located, side: str) -> Iterator[Operation]:
    """Iterate over the operations behind q, k or v, the last one first, along one operand."""
    spots = located.spots.get(side)
    value = spots[0][0] if spots else None
    for _ in range(_LONGEST):
        operation = tape.maker.get(value) if value is not None else None
        if operation is None or operation.name not in _ALONG:
            return
        yield operation
        value = next((v for v in operation.values() if v not in located.weights), None)
