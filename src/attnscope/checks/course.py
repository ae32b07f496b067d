"""The course of a call, operation by operation: from q·k to the context, each with its line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnscope.calls.call import Call
from attnscope.calls.program import Operation, Value, map_leaves
from attnscope.calls.source import Source
from attnscope.capture.tape import Tape
from attnscope.capture.trail import LAYOUT
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.subject.subject import Subject
from attnscope.differ.sides.located import Located

__all__ = ["Course", "course_of", "course_on", "representatives", "way_out"]

SOFTMAXES = frozenset("softmax log_softmax softmin sigmoid relu exp".split())
HIDING = frozenset(
    "masked_fill masked_fill_ where setitem add add_ sub sub_ masked_scatter mul mul_ rsub "
    "index_fill index_fill_ tril triu".split()
)
STATISTICS = frozenset(
    "mean std var std_mean var_mean amax amin aminmax max min median quantile norm vector_norm "
    "matrix_norm sum nansum logsumexp normalize batch_norm instance_norm group_norm layer_norm "
    "rms_norm".split()
)
"""Numbers taken over an axis: a scale that depends on others is a fault of its own kind."""


@dataclass(eq=False)
class Course:
    """The operations of one call on the tape of the base run.

    located: where its stages lie. main: those through which q or k reach the context, in order; one
    operation for a fused kernel. aside: those that make what joins them: masks, biases, scales.
    """

    located: Located
    tape: Tape
    main: tuple[Operation, ...]
    aside: tuple[Operation, ...]

    @property
    def call(self) -> Call:
        """The call."""
        return self.located.call

    @cached_property
    def product(self) -> Operation | None:
        """The operation q·k (that of the kernel, where it is one)."""
        return next((op for op in self.main if op.name in CONTRACTIONS), None) or self._kernel

    @cached_property
    def softmax(self) -> Operation | None:
        """The operation that normalises the scores; the kernel, where it is one."""
        between = self.main[:-1] if len(self.main) > 1 else self.main
        return next((op for op in reversed(between) if op.name in SOFTMAXES), None) or self._kernel

    @property
    def _kernel(self) -> Operation | None:
        return self.main[0] if len(self.main) == 1 else None

    @property
    def weighing(self) -> Operation | None:
        """The product of weights and v."""
        return self.main[-1] if self.main else None

    @cached_property
    def hiding(self) -> tuple[Operation, ...]:
        """Operations before the softmax that may hide keys: fills, additions of a mask."""
        found = []
        for operation in self.main:
            if operation is self.softmax:
                break
            if operation.name in HIDING and self.joined(operation):
                found.append(operation)
        return tuple(found)

    def joined(self, operation: Operation) -> list[int]:
        """Return the values that join the main path in an operation: masks, biases, scales."""
        on_path = self._on_path
        return [value for value in dict.fromkeys(operation.values()) if value not in on_path]

    @cached_property
    def _on_path(self) -> frozenset[int]:
        known = {value for name in ("q", "k") for value, _ in self.located.spots.get(name, [])}
        return frozenset(known | {value for op in self.main for value in op.defines})

    def line(self, *operations: Operation | None) -> Source:
        """Return the line of the first operation that has one, or of the call."""
        known = (op.source for op in operations if op is not None and op.source is not None)
        return next(known, self.call.source)

    def layout_of(self, name: str) -> tuple[Operation, ...]:
        """Return the layout operations behind q, k or v, the last one first, to its projection."""
        spots = self.located.spots.get(name)
        return tuple(self._back(spots[0][0])) if spots else ()

    def _back(self, value: int) -> Iterable[Operation]:
        """Walk back from a value while there is one operand to follow, as far as a projection."""
        for _ in range(64):
            operation = self.tape.maker.get(value)
            if operation is None or operation.name in CONTRACTIONS:
                return
            if operation.name in LAYOUT:
                yield operation
            before = [v for v in operation.values() if v not in self.located.weights]
            if not before:
                return
            value = before[0]


def course_of(subject: Subject, call: Call) -> Course | None:
    """Return the course of a call; None where its tensors don't lie on the tape."""
    return subject.once(("course", call.index), lambda: _read(subject, call))


def _read(subject: Subject, call: Call) -> Course | None:
    located = subject.located(call)
    return course_on(subject.base.tape, located) if located is not None else None


def course_on(tape: Tape, located: Located) -> Course | None:
    """Return the course of a call of any run; None where its tensors don't lie on the tape."""
    spots = {
        name: [v for v, _ in located.spots.get(name, [])]
        for name in ("q", "k", "v", "weights", "context")
    }
    ends = spots["context"] or _projected_at_once(tape, spots["weights"], spots["v"])
    if not ends or not all(spots[name] for name in ("q", "k", "v")):
        return None
    starts = {value for name in ("q", "k", "v") for value in spots[name]}
    held = {value: tape.tensors[value] for value in starts}
    needed = tape.program.needed(tuple(ends), held)
    main, aside = _split(needed, {*spots["q"], *spots["k"]})
    return Course(located, tape, tuple(main), tuple(aside))


def _projected_at_once(tape: Tape, weights: Iterable[int], v: Iterable[int]) -> list[int]:
    """Return what weights, v and the output projection make in one product of three."""
    users = (user for value in weights for user in tape.users.get(value, []))
    return next((list(user.defines) for user in users if not {*user.values()}.isdisjoint(v)), [])


def _split(
    operations: Iterable[Operation], starts: Collection[int]
) -> tuple[list[Operation], list[Operation]]:
    reached = set(starts)
    main: list[Operation] = []
    aside: list[Operation] = []
    for operation in operations:
        through = not reached.isdisjoint(operation.values())
        (main if through else aside).append(operation)
        if through:
            reached.update(operation.defines)
    return main, aside


def way_out(tape: Tape, located: Located) -> Iterator[Operation]:
    """Iterate over the operations from the context to the output projection."""
    spots = located.spots.get("context")
    if not spots or located.output is None:
        return
    (start, _), *_ = spots
    reached = {start}
    for operation in tape.program.needed((located.output,), {start: tape.tensors[start]}):
        if reached.isdisjoint(operation.values()):
            continue
        if operation.name not in LAYOUT:
            return
        reached.update(operation.defines)
        yield operation


def representatives(subject: Subject) -> tuple[Located, ...]:
    """Return the first of all calls that went through the very same lines with the same sizes.

    What follows from the code alone (layouts, where a mask is applied) is the same for all of them,
    and a model of many layers needs it found out once.
    """
    return subject.once("representatives", lambda: tuple(_first_of_each(subject)))


def _first_of_each(subject: Subject) -> Iterable[Located]:
    known: set[object] = set()
    for located in subject.base.located:
        way = _way(subject.base.tape, located)
        if way not in known:
            known.add(way)
            yield located


def _way(tape: Tape, located: Located) -> object:
    """Return the names, lines and sizes of all operations from what is received to the output."""
    ends = [value for spots in located.spots.values() for value, _ in spots]
    if located.output is not None:
        ends.append(located.output)
    starts = {value: tape.tensors[value] for value in located.received.values()}
    needed = tape.program.needed(tuple(ends), starts)
    return tuple((op.name, str(op.source), op.shapes, _plain(op)) for op in needed)


def _plain(operation: Operation) -> str:
    """Return the arguments that are no tensors."""
    return repr(map_leaves((operation.args, dict(operation.kwargs)), _unless_value))


def _unless_value(leaf: Any) -> Any:
    return None if isinstance(leaf, Value) else leaf
