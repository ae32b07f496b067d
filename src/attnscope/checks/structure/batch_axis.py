"""What speaks for an axis of the inputs being that of the samples, where nothing declares it.

(length, batch, width) is as good an order as (batch, length, width), and attention over the first
axis is right in the one and wrong in the other. So it is an error only where something says which
axis is which: the code's own words, a table of positions, or what is left after pooling.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.checks.operations import ADDS
from attnscope.checks.subject.code import batch_axis_in_code, batch_axis_in_words
from attnscope.checks.subject.given import parameters_of
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject

__all__ = ["Said", "named_by_module", "said_of"]


@dataclass(frozen=True, slots=True)
class Said:
    """An axis of samples, and what says so; axis None: nothing does."""

    axis: int | None
    why: str


def said_of(subject: Subject, stream: Stream) -> Said:
    """Return which of the first two axes of a sequence runs over samples, and what says so."""
    return subject.once(("batch axis", stream.name), lambda: _said(subject, stream))


def _said(subject: Subject, stream: Stream) -> Said:
    if stream.certain:
        return Said(stream.batch_axis, stream.why)
    sizes = tuple(subject.given.values[stream.name].shape[:2])
    if len(sizes) == 2 and sizes[0] != sizes[1]:
        for said in (_inside, _by_positions, _by_pooling):
            found = said(subject, stream, (int(sizes[0]), int(sizes[1])))
            if found is not None:
                return found
    return Said(None, stream.why)


def _inside(subject: Subject, stream: Stream, sizes: tuple[int, int]) -> Said | None:
    """Return what the forward of a module that attends calls the sizes of what it receives."""
    del stream
    for located in subject.base.located:
        received = located.received.get("q")
        said = _named_in(subject, located.call.module) if received is not None else None
        if received is None or said is None:
            continue
        axis, why = said
        size = subject.base.tape.tensors[received].shape[axis]
        if size in sizes:
            return Said(sizes.index(size), why)
    return None


def _named_in(subject: Subject, path: str) -> tuple[int, str] | None:
    """Return the batch axis that the innermost module which names its sizes gives its input."""
    while True:
        said = named_by_module(subject, path)
        if said is not None or not path:
            return said
        path = path.rpartition(".")[0]


def named_by_module(subject: Subject, path: str) -> tuple[int, str] | None:
    """Return the batch axis that a module gives its first input, by names or in words, and how."""
    module = subject.module(path)
    names = [p.name for p in parameters_of(module)] if module is not None else []
    if not names:
        return None
    kind = type(module).__name__
    axis = batch_axis_in_code(module, names[0])
    if axis is not None:
        return axis, f"{kind} unpacks the shape of {names[0]} so"
    axis = batch_axis_in_words(module, names[0])
    return None if axis is None else (axis, f"{kind} gives the shape of {names[0]} so in words")


def _by_positions(subject: Subject, stream: Stream, sizes: tuple[int, int]) -> Said | None:
    """Return the other axis than the one along which something that no input reaches is added."""
    tape = subject.base.tape
    start = subject.input_value(stream.name)
    reached = {start}
    for operation in tape.operations:
        if reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        if operation.name not in ADDS or tuple(operation.shapes[0][:2]) != sizes:
            continue
        apart = [tape.tensors[v] for v in operation.values() if v not in reached]
        along = _varies_along(apart[0], operation, sizes) if apart else None
        if along is not None:
            line = f" at line {operation.source.line}" if operation.source is not None else ""
            return Said(1 - along, f"positions are added along axis {along}{line}")
    return None


def _varies_along(table: Tensor, operation: Operation, sizes: tuple[int, int]) -> int | None:
    """Return which of the first two axes alone a table that is added runs along."""
    missing = len(operation.shapes[0]) - table.dim()
    shape = (1,) * missing + tuple(table.shape)
    full = [axis for axis in (0, 1) if shape[axis] == sizes[axis]]
    if len(full) == 2 and table.shape[0] > 1:  # one expanded over all samples
        full = [axis for axis in full if not _repeats(table, axis)]
    if len(full) != 1 or sizes[full[0]] < 2 or _repeats(table, full[0] - missing):
        return None
    return full[0]


def _repeats(table: Tensor, axis: int) -> bool:
    """Return whether a table is the same at all indices of an axis."""
    return bool((table == table.narrow(axis, 0, 1)).all())


def _by_pooling(subject: Subject, stream: Stream, sizes: tuple[int, int]) -> Said | None:
    """Return the axis that is left in the output, where the other one is gone from all of it.

    Patches of all images in one list, (patches, features), have lost no tokens that way.
    """
    if stream.kind == "image" and stream.sequence_axis is None:
        return None
    shape = tuple(subject.output.shape)
    left = [axis for axis in (0, 1) if shape[:1] == sizes[axis : axis + 1]]
    gone = [axis for axis in (0, 1) if sizes[axis] not in shape]
    if len(left) == 1 and gone == [1 - left[0]]:
        return Said(left[0], f"the output {shape} has one row for each index of axis {left[0]}")
    return None
