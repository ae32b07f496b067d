"""The stream around a call: what it receives, its norm, and the sum that its result joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape
from attnscope.capture.trail import LAYOUT
from attnscope.checks.operations import ADDS, CONTRACTIONS, CONVOLUTIONS, DIVIDES, MULTIPLIES
from attnscope.checks.residual.graph import behind, reached
from attnscope.differ.sides.located import Located

__all__ = [
    "PRODUCTS",
    "Misplacement",
    "Sum",
    "Surroundings",
    "is_feed_forward",
    "stripped",
]

PRODUCTS = CONTRACTIONS | CONVOLUTIONS | {"bilinear", "scaled_dot_product_attention"}
"""What mixes features or tokens: whatever is behind it is another stream."""

NORMS = frozenset(
    "layer_norm rms_norm group_norm batch_norm instance_norm _fused_rms_norm normalize".split()
)
_REDUCTIONS = frozenset(
    "mean var std sum norm var_mean std_mean vector_norm linalg_vector_norm".split()
)
_SCALINGS = MULTIPLIES | DIVIDES | {"neg"}
_FURTHEST = 60
"""Operations between attention's result and the sum that it joins, at most."""


def _passes(operation: Operation) -> bool:
    """Return whether an operation hands on what it gets, rearranged, dropped or scaled."""
    return (
        operation.name in LAYOUT
        or "dropout" in operation.name
        or operation.name in _SCALINGS
        or operation.name in {"identity", "masked_fill", "masked_fill_"}
    )


def handed_on(operation: Operation) -> tuple[int, ...]:
    """Return the values whose numbers an operation takes: of an expand_as, the first one alone."""
    values = tuple(dict.fromkeys(operation.values()))
    return values[:1] if operation.name.endswith("_as") else values


def stripped(tape: Tape, value: int, weights: frozenset[int]) -> int:
    """Return what a value is but for layout, dropout and scaling by numbers or parameters."""
    for _ in range(_FURTHEST):
        operation = tape.maker.get(value)
        if operation is None or not _passes(operation):
            return value
        before = [v for v in handed_on(operation) if v not in weights]
        if len(before) != 1 or len(operation.defines) > 1:
            return value
        if tape.tensors[before[0]].numel() != tape.tensors[value].numel():
            return value
        value = before[0]
    return value


def norm_input(tape: Tape, value: int, weights: frozenset[int]) -> int | None:
    """Return what a value is the normalised form of; None: it isn't made by a norm.

    A norm written by hand is what takes a mean (or a sum, a variance) of one value on the way, and
    no product with a weight matrix. Shift and scale may come of something else, one for all tokens.
    """
    for each in _unmodulated(tape, value):
        found = _norm_input(tape, each, weights)
        if found is not None:
            return found
    return None


def _unmodulated(tape: Tape, value: int) -> Iterator[int]:
    """Iterate over a value, and what it is but for factors and shifts spread over its tokens."""
    for _ in range(_FURTHEST):
        yield value
        operation = tape.maker.get(value)
        if operation is None or operation.name not in _SCALINGS | ADDS | {"addcmul"}:
            return
        size = tape.tensors[value].numel()
        whole = [v for v in dict.fromkeys(operation.values()) if tape.tensors[v].numel() == size]
        if len(whole) != 1:
            return
        value = whole[0]


def _norm_input(tape: Tape, value: int, weights: frozenset[int]) -> int | None:
    operation = tape.maker.get(value)
    if operation is None:
        return None
    if operation.name in NORMS:
        return stripped(tape, next(operation.values()), weights)
    size = tape.tensors[value].numel()
    seen: set[int] = set()
    waiting, reduced = [value], False
    while waiting and len(seen) < _FURTHEST:
        waiting.sort()
        number = waiting.pop()  # the latest: all that joins it has been walked by then
        if not waiting and reduced and tape.tensors[number].numel() == size and number != value:
            return stripped(tape, number, weights)
        made = tape.maker.get(number)
        if number in seen or made is None:
            continue
        if made.name in PRODUCTS or made.name == "embedding":
            return None
        seen.add(number)
        reduced = reduced or made.name in _REDUCTIONS
        waiting += [
            v for v in dict.fromkeys(made.values()) if v not in weights and v not in waiting
        ]
    return None


@dataclass(frozen=True, slots=True)
class Sum:
    """An addition: of which value of the branch, and of what else."""

    operation: Operation
    branch: int
    other: int

    @property
    def result(self) -> int:
        """The value that it makes."""
        return self.operation.defines[0]


@dataclass(eq=False)
class Surroundings:
    """The graph around one call.

    joins: sums of the attention's result with something that doesn't depend on it; later: sums with
    something that does (a residual around what follows). normed: whether a norm lies between.
    """

    located: Located
    tape: Tape
    weights: frozenset[int]
    joins: list[Sum] = field(default_factory=list)
    later: list[Sum] = field(default_factory=list)
    normed: bool = False

    def __post_init__(self) -> None:
        contexts = [v for v, _ in self.located.spots.get("context", [])]
        self._after = reached(self.tape, contexts)
        self._walk(contexts)

    @cached_property
    def received(self) -> int | None:
        """What all three projections receive, but for layout; None: different things."""
        values = {self.stripped(v) for v in self.located.received.values()}
        return values.pop() if len(values) == 1 and len(self.located.received) == 3 else None

    @cached_property
    def before_norm(self) -> int | None:
        """What the norm in front of the projections receives; None: there is no norm."""
        received = self.received
        return None if received is None else self.norm_input(received)

    @property
    def join(self) -> Sum | None:
        """The sum that attention's result joins first."""
        return self.joins[0] if self.joins else None

    def depends(self, value: int) -> bool:
        """Return whether a value depends on the context of the call."""
        return value in self._after

    def stripped(self, value: int) -> int:
        """Return what a value is but for layout, dropout and scaling by numbers or parameters."""
        return stripped(self.tape, value, self.weights)

    def norm_input(self, value: int) -> int | None:
        """Return what a value is the normalised form of; None: it isn't made by a norm."""
        return norm_input(self.tape, value, self.weights)

    def _walk(self, contexts: list[int]) -> None:
        """Follow the context on to the first sum."""
        waiting = [(value, 0) for value in contexts]
        seen: set[int] = set()
        for _ in range(_FURTHEST):
            if not waiting or self.joins:
                return
            value, projections = waiting.pop(0)
            if value in seen:
                continue
            seen.add(value)
            for operation in self.tape.users.get(value, ()):
                self._step(operation, value, projections, waiting)

    def _step(
        self, operation: Operation, value: int, projections: int, waiting: list[tuple[int, int]]
    ) -> None:
        others = [
            v for v in dict.fromkeys(operation.values()) if v != value and v not in self.weights
        ]
        if operation.name in ADDS and list(operation.values()).count(value) == 2:
            self.joins.append(Sum(operation, value, value))
        elif operation.name in ADDS and others:
            self._join(Sum(operation, value, others[0]))
        elif operation.name in PRODUCTS:
            from_weight = any(v in self.weights for v in operation.values())
            if from_weight and projections == 0:
                waiting.append((operation.defines[0], 1))
        elif operation.name in NORMS or self.norm_input(operation.defines[0]) == value:
            self.normed = True
            waiting.append((operation.defines[0], max(projections, 1)))
        elif (_passes(operation) and value in handed_on(operation)) or operation.name in ADDS:
            waiting += [(made, projections) for made in operation.defines]

    def _join(self, found: Sum) -> None:
        """Keep a sum of two things of one size: of the stream, or of what came of attention."""
        if self.same(found.branch, found.other):
            self.joins.append(Sum(found.operation, found.branch, found.branch))
        elif self.tape.tensors[found.other].numel() == self.tape.tensors[found.result].numel():
            (self.later if self.depends(found.other) else self.joins).append(found)

    def sums_of(self, value: int) -> Iterator[Sum]:
        """Iterate over the sums that a value joins, layout, dropout and scaling looked through."""
        waiting = [value]
        for number in waiting:
            if len(waiting) > _FURTHEST:
                return
            for operation in self.tape.users.get(number, ()):
                if operation.name in ADDS:
                    values = list(operation.values())
                    others = [v for v in values if v != number and v not in self.weights]
                    if others or values.count(number) == 2:
                        yield Sum(operation, number, others[0] if others else number)
                        continue
                passed = _passes(operation) and number in handed_on(operation)
                if passed or operation.name in ADDS:
                    waiting += [v for v in operation.defines if v not in waiting]

    def same(self, first: int, second: int) -> bool:
        """Return whether two values are the same but for layout, dropout and scaling."""
        return self.stripped(first) == self.stripped(second)

    def between(self, first: int, second: int) -> list[Operation]:
        """Return the operations on the ways from one value to another."""
        from_first = reached(self.tape, [first])
        return [
            op
            for op in behind(self.tape, [second], [first])
            if not from_first.isdisjoint(op.values())
        ]


@dataclass(frozen=True, slots=True)
class Misplacement:
    """kind: "after the norm", "after the second norm", "doubled", "missing" or "block input".

    at: the operation at fault.
    """

    kind: str
    around: Surroundings
    at: Operation


def is_feed_forward(around: Surroundings, way: list[Operation], total: int) -> bool:
    """Return whether a way is two or three projections with nothing added to itself on it."""
    projections = [op for op in way if op.name in PRODUCTS]
    if len(projections) not in {2, 3} or not all(
        any(v in around.weights for v in op.values()) for op in projections
    ):
        return False
    from_total = reached(around.tape, [total])
    sums = [op for op in way if op.name in ADDS]
    return not any(sum(v in from_total for v in dict.fromkeys(op.values())) > 1 for op in sums)
