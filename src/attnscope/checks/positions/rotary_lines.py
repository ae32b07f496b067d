"""The line to point at for a fault of a rotary embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.definitions import defined
from attnscope.checks.masking.frames import frames_at
from attnscope.checks.positions.rotary_faults import RotaryFault
from attnscope.checks.positions.turning import Factor
from attnscope.checks.residual.graph import behind
from attnscope.checks.scoring.assigned import line_of_argument
from attnscope.checks.scoring.rotary import table_of
from attnscope.checks.statements import calls_of, first_where, mentions
from attnscope.checks.subject.subject import Subject

__all__ = ["line_of_rotary"]

_LAYS_OUT = frozenset("repeat_interleave stack cat hstack repeat tile".split())


def line_of_rotary(subject: Subject, fault: RotaryFault) -> Source | None:
    """Return where the table is laid out, where a side is left out, or what turns it."""
    if fault.kind == "no rotation":
        return _line_of_layout(subject, fault) or fault.operation.source
    if fault.kind == "one side":
        return _line_of_parts(subject, fault) or _line_that_leaves_out(subject, fault)
    if fault.kind == "twice":
        first = next((each for each in fault.turning.factors if each.depth == 1), None)
        source = first.operation.source if first is not None else None
        if source is not None and source != fault.operation.source:
            return fault.operation.source
    if fault.kind == "axis":
        return _line_around(subject, fault) or fault.operation.source
    return _line_of_call(subject, fault.operation)


def _line_around(subject: Subject, fault: RotaryFault) -> Source | None:
    """Return the line that hands q or k to what turns them; None: the attention does it itself."""
    frames = [frame for frame in frames_at(subject, fault.operation) if frame.own]
    inside = fault.turning.located.call.source.function
    if len(frames) < 2 or frames[0].source().function == inside:
        return None
    return frames[1].source()


def _line_that_leaves_out(subject: Subject, fault: RotaryFault) -> Source | None:
    """Return the line of the innermost function that holds both the turning and the attention.

    What turns is right as it is: it was called for one side alone.
    """
    course = course_of(subject, fault.turning.located.call)
    if course is not None and course.product is not None:
        around = {id(frame.code) for frame in frames_at(subject, course.product)}
        for frame in frames_at(subject, fault.operation):
            if frame.own and id(frame.code) in around:
                return frame.source()
    return _line_of_call(subject, fault.operation)


def _line_of_call(subject: Subject, operation: Operation) -> Source | None:
    """Return the line that calls the helper which turns, or the operation's own."""
    source = operation.source
    if source is None:
        return None
    frames = [frame for frame in frames_at(subject, operation) if frame.own]
    if len(frames) > 1 and calls_of(subject.run, frames[0].name) is not None:
        return frames[1].source()
    return calls_of(subject.run, source.function.rpartition(".")[2]) or source


def _line_of_parts(subject: Subject, fault: RotaryFault) -> Source | None:
    """Return where the side that isn't turned is put together of two parts."""
    other = "k" if fault.turning.side == "q" else "q"
    located, tape = fault.turning.located, subject.base.tape
    values = [value for value, _ in located.spots[other]]
    way = behind(tape, values, [located.received[other]])
    joined = [op for op in way if op.name == "cat"]
    return joined[-1].source if joined else None


def _line_of_layout(subject: Subject, fault: RotaryFault) -> Source | None:
    """Return where the table that is out of order was laid out.

    Where it isn't known which, it is one that has each of its columns twice in a row: halves that
    are swapped need the columns one after the other, and are what nearly all code has.
    """
    if fault.table is not None:
        return _laid_out(subject, fault.table) or _line_of_making(subject, fault.table)
    factor = fault.turning.pairs[-1][1] if fault.turning.pairs else None
    if factor is None or not _is_interleaved(factor.table):
        return None
    return _laid_out(subject, factor) or first_where(
        subject.run, lambda node: mentions(node, "repeat_interleave")
    )


def _laid_out(subject: Subject, factor: Factor) -> Source | None:
    way = reversed(behind(subject.base.tape, [factor.value]))
    return next((each.source for each in way if each.name in _LAYS_OUT), None)


def _line_of_making(subject: Subject, factor: Factor) -> Source | None:
    """Return the line of the constructor that makes a buffer of a table."""
    name = table_of(subject, factor.value)
    made = defined(subject.model, name) if name and subject.model is not None else None
    return line_of_argument(made) if made is not None else None


def _is_interleaved(table: Tensor) -> bool:
    if table.is_complex() or table.shape[-1] % 2:
        return False
    return torch.equal(table[..., ::2], table[..., 1::2])
