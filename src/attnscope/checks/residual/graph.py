"""What depends on what in a recorded run."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.subject.subject import Subject

__all__ = ["behind", "needed_by_outputs", "output_values", "reached"]


def reached(tape: Tape, starts: Iterable[int], barred: Collection[int] = ()) -> set[int]:
    """Return the values that depend on some values, those included; not on through barred ones."""
    found = set(starts)
    for operation in tape.operations:
        if any(v in found and v not in barred for v in operation.needs):
            found.update(operation.defines)
    return found


def behind(tape: Tape, ends: Iterable[int], stop: Collection[int] = ()) -> tuple[Operation, ...]:
    """Return the operations that some values depend on, in order, not going behind `stop`."""
    held = {value: tape.tensors[value] for value in stop}
    return tape.program.needed(tuple(ends), held)


def output_values(subject: Subject) -> list[int]:
    """Return the values on the tape that are float outputs of the model."""
    outputs = subject.base.outputs.values()
    values = (subject.base.tape.value_of(each) for each in outputs)
    return [value for value in values if value is not None]


def needed_by_outputs(subject: Subject) -> set[int]:
    """Return the values of the tape that the outputs depend on."""
    ends = output_values(subject)
    found = set(ends)
    for operation in behind(subject.base.tape, ends):
        found.update(operation.needs)
        found.update(operation.values())
    return found
