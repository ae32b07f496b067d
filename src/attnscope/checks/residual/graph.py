"""What depends on what in a recorded run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.subject.subject import Subject

__all__ = [
    "STEPS",
    "behind",
    "contents",
    "first_cut",
    "free_values",
    "learning",
    "needed_by_outputs",
    "node_of",
    "output_values",
    "parameters_on",
    "projection_of",
    "reached",
]

_SHAPE_ALONE = re.compile(r"(_like$|^new_|^size$|^shape$|^numel$|^dim$)")
_COMPARES = frozenset(
    "eq ne gt lt ge le isnan isinf logical_not logical_and logical_or any all".split()
)


STEPS = frozenset("round sign floor ceil trunc fix heaviside bernoulli".split())
"""Functions whose derivative is zero everywhere."""


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


def parameters_on(subject: Subject, way: Iterable[Operation]) -> list[str]:
    """Return the parameters that are read on a way, in its order."""
    names = subject.base.parameters
    return list(dict.fromkeys(names[v] for op in way for v in op.values() if v in names))


def projection_of(subject: Subject, values: list[int]) -> list[str]:
    """Return the parameters of the projection nearest to q, k or v."""
    for operation in reversed(behind(subject.base.tape, values)):
        if operation.name in CONTRACTIONS and (names := parameters_on(subject, [operation])):
            return names
    return []


def needed_by_outputs(subject: Subject) -> set[int]:
    """Return the values of the tape that the outputs depend on."""
    ends = output_values(subject)
    found = set(ends)
    for operation in behind(subject.base.tape, ends):
        found.update(operation.needs)
        found.update(operation.values())
    return found


def first_cut(
    tape: Tape, way: Iterable[Operation], starts: Iterable[int]
) -> tuple[Operation | None, set[int]]:
    """Return the first operation on a way that autograd doesn't go through, and what still lives.

    What lives are the values that get a gradient, or would, from `starts` on. Rounding and signs
    are in the graph, and their derivative is zero everywhere: they cut as `detach` does.
    """
    alive, cut = set(starts), None
    for operation in way:
        if alive.isdisjoint(operation.values()) or _SHAPE_ALONE.search(operation.name):
            continue
        steps = operation.name.rstrip("_") in STEPS
        if not steps and any(tape.tensors[v].requires_grad for v in operation.defines):
            alive.update(operation.defines)
        elif cut is None:
            cut = operation
    return cut, alive


def learning(subject: Subject) -> set[int]:
    """Return the values from which autograd has a way to an output."""
    tape, found = subject.base.tape, set(output_values(subject))
    for operation in reversed(tape.operations):
        made = [v for v in operation.defines if v in found and tape.tensors[v].requires_grad]
        if made and not _SHAPE_ALONE.search(operation.name):
            found.update(v for v in operation.values() if tape.tensors[v].requires_grad)
    return found


def _moved(tape: Tape, starts: set[int]) -> set[int]:
    """Return what depends on the numbers of some values: not on shapes or comparisons alone."""
    found = set(starts)
    for operation in tape.operations:
        if _SHAPE_ALONE.search(operation.name) or operation.name in _COMPARES:
            continue
        if operation.name.endswith("_as"):  # of the second operand the shape alone is taken
            if next(operation.values(), None) in found:
                found.update(operation.defines)
        elif not found.isdisjoint(operation.needs):
            found.update(operation.defines)
    return found


def contents(subject: Subject) -> set[int]:
    """Return the values that depend on the tokens of any sequence."""
    inputs = {subject.input_value(stream.name) for stream in subject.roles.streams}
    return _moved(subject.base.tape, {value for value in inputs if value is not None})


def free_values(subject: Subject) -> set[int]:
    """Return the values that depend on no input at all: parameters, buffers, counted positions."""
    tape = subject.base.tape
    given = {subject.input_value(name) for name, _ in subject.given.tensors()}
    moved = _moved(tape, {value for value in given if value is not None})
    for operation in tape.operations:  # what is compared depends on the inputs all the same
        if operation.name in _COMPARES and not moved.isdisjoint(operation.needs):
            moved.update(operation.defines)
    return set(tape.tensors) - _moved(tape, moved)


def node_of(tensor: Tensor) -> Any:
    """Return the node of autograd that made a tensor; None: it has none that may be asked for."""
    try:
        return tensor.grad_fn
    except RuntimeError:  # a view that was made without a graph, of what was then written to
        return None
