"""The operations of a part as a graph of activations: what lies between which values.

A change of a part often reads "from here to there, do nothing". Whether two values have such a
piece between them, and what it does, is told from the graph and the numbers, not from how the code
spells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.explain.part import Part

__all__ = ["CONTRACTIONS", "Flow", "Segment", "flow_of"]

CONTRACTIONS = frozenset(
    "linear matmul rmatmul mm bmm addmm baddbmm einsum tensordot conv1d conv2d mv".split()
)
"""Operations that multiply with a matrix."""

_LONGEST = 80
"""Values between the ends of a segment, at most: more than a norm or a rotation ever takes."""
_LEAST_AXES = 3
"""An unnamed float tensor of so many axes is an input of the model, not a table made on the way."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a part that one activation enters and one of the same shape leaves.

    start, end: the values; operations: between them, tables and parameters prepared for it
    included; parameters: dotted names of those it uses.
    """

    start: int
    end: int
    operations: tuple[Operation, ...]
    parameters: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it stands: the module of its parameters, else its line of code."""
        if self.parameters:
            return self.parameters[-1].rpartition(".")[0] or self.parameters[-1]
        source = self.operations[-1].source
        return "" if source is None else f"{source.file.rpartition('/')[2]}:{source.line}"

    @property
    def projects(self) -> bool:
        """Whether it multiplies activations with a matrix, and so mixes features."""
        return not self.names.isdisjoint(CONTRACTIONS)

    @property
    def names(self) -> frozenset[str]:
        """Names of its operations, without the mark of those that work in place."""
        return frozenset(op.name.strip("_") for op in self.operations)


class Flow:
    """A part as a graph; activations are what depends on the inputs of the part.

    It lives as long as its part does, which it does not keep alive.
    """

    def __init__(self, part: Part) -> None:
        """Look at `part`; nothing is run yet."""
        self._part = ref(part)
        self.known: dict[int, Any] = {}  # levels before a stage, by its heads
        self.operations = part.operations
        self.maker = {
            value: op for op in self.operations for value in op.defines if value not in part.given
        }

    @property
    def part(self) -> Part:
        """The part that this is the graph of."""
        part = self._part()
        assert part is not None  # noqa: S101  whoever asks holds it
        return part

    @cached_property
    def values(self) -> dict[int, Tensor]:
        """Every tensor of the part, in the model's own layout, float64."""
        wanted = list(self.maker)
        if self._writes:  # memory that changes later
            found = {value: self.part.values([value])[value].clone() for value in wanted}
        else:
            found = self.part.values(wanted)
        inputs = self.part.program.inputs
        found.update({n: inputs[n].raw for n in self.leaves if n in inputs})
        return {**found, **self.part.given}

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        """Values that the part takes instead of computing them, in order."""
        read = (value for op in self.operations for value in op.needs)
        return tuple(dict.fromkeys(value for value in read if value not in self.maker))

    @cached_property
    def activations(self) -> frozenset[int]:
        """Floating values that depend on the inputs of the part, and the inputs themselves."""
        found = {leaf for leaf in self.leaves if self._is_input(leaf)}
        from_within = not self._is_projection
        for op in self.operations:
            if (from_within and self._looks_up(op)) or not found.isdisjoint(op.needs):
                made = (value for value in op.defines if value in self.maker)
                found.update(value for value in made if self._is_float(value))
        return frozenset(found)

    @cached_property
    def before(self) -> dict[int, int | None]:
        """For each activation, the nearest one that everything on the way to it passes through."""
        nearest: dict[int, int | None] = {}
        depth: dict[int | None, int] = {None: 0}
        made: list[tuple[int, tuple[int, ...]]] = [(leaf, ()) for leaf in self.leaves]
        made += [(value, op.needs) for op in self.operations for value in op.defines]
        for value, needs in made:
            if value in self.activations and value not in nearest:
                above = [need for need in needs if need in nearest]
                met: int | None = above[0] if above else None
                for other in above[1:]:
                    met = _meeting(met, other, nearest, depth)
                nearest[value], depth[value] = met, depth[met] + 1
        return nearest

    @cached_property
    def _rank(self) -> dict[int, int]:
        """Number the values of the part in the order they are made."""
        return {value: rank for rank, value in enumerate((*self.leaves, *self.maker))}

    def dominators(self, value: int) -> Iterator[int]:
        """Iterate over the activations that everything on the way to `value` passes through."""
        above, rank = self.before.get(value), self._rank
        while above is not None and rank[value] - rank[above] <= _LONGEST:
            yield above
            above = self.before[above]

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, short ones before those that are made of them."""
        pairs = [
            (self._rank[end] - self._rank[start], start, end)
            for end in self.before
            for start in self.dominators(end)
            if self._same_shape(start, end)
        ]
        found = []
        for _, start, end in sorted(pairs):
            operations = self.between(start, end)
            if operations:
                found.append(Segment(start, end, operations, self.parameters_of(operations)))
        return tuple(found)

    def between(self, start: int, end: int) -> tuple[Operation, ...]:
        """Return what makes `end` when `start` is there, tables prepared for it included."""
        waiting, found = [end], {}
        while waiting:
            op = self.maker.get(waiting.pop())
            if op is not None and op.defines[0] not in found:
                found[op.defines[0]] = op
                waiting.extend(value for value in op.needs if value != start)
        return tuple(op for _, op in sorted(found.items()))

    def parameters_of(self, operations: tuple[Operation, ...]) -> tuple[str, ...]:
        """Return the dotted names of the parameters that operations read."""
        named = self.part.parameters
        read = (value for op in operations for value in op.needs)
        return tuple(dict.fromkeys(named[value] for value in read if value in named))

    def run(
        self,
        edits: Mapping[int, Operation] | None = None,
        given: Mapping[int, Tensor] | None = None,
        wanted: int | None = None,
    ) -> Tensor:
        """Return the stage (or the value `wanted`, as it lies); arguments as for `Part.run`.

        Only what an edit can change is computed again.
        """
        edits, given, part = edits or {}, given or {}, self.part
        kept = {} if self._writes else self._untouched({*edits, *given})
        end = part.wanted if wanted is None else wanted
        made = part.values([end], edits, {**kept, **given})[end]
        return part.read(made) if wanted is None else made

    @cached_property
    def _writes(self) -> bool:
        """Whether memory changes on the way, so that values are not what they were."""
        return any(op.target is not None for op in self.operations)

    def _untouched(self, changed: Iterable[int]) -> dict[int, Tensor]:
        """Return the values that don't follow from `changed`."""
        reached = set(changed)
        for op in self.operations:
            if not reached.isdisjoint((*op.needs, *op.defines)):
                reached.update(op.defines)
        return {value: t for value, t in self.values.items() if value not in reached}

    def operands(self, op: Operation) -> tuple[int, ...]:
        """Return the activations among the arguments of an operation."""
        return tuple(value for value in op.values() if value in self.activations)

    @property
    def _is_projection(self) -> bool:
        """Whether what the projection receives is given, and nothing else is an input."""
        return self.part.origin is not None and self.part.origin in self.part.given

    def _is_input(self, leaf: int) -> bool:
        if leaf in self.part.parameters:
            return False
        if leaf in self.part.given:
            return self.part.given[leaf].is_floating_point()
        if self._is_projection:
            return False
        tensor = self.part.program.inputs[leaf].raw
        return tensor.is_floating_point() and tensor.ndim >= _LEAST_AXES

    def _looks_up(self, op: Operation) -> bool:
        """Return whether rows of a parameter are chosen by integers."""
        if op.name == "embedding":
            return True
        if op.name not in {"getitem", "index_select"}:
            return False
        first, *others = op.values()
        if not others or first not in self.part.parameters:
            return False
        return not self._is_float(others[0])

    def _is_float(self, value: int) -> bool:
        tensor = self.values.get(value)
        return tensor is not None and (tensor.is_floating_point() or tensor.is_complex())

    def _same_shape(self, start: int, end: int) -> bool:
        first, last = self.values[start], self.values[end]
        if first.shape != last.shape or first.dtype != last.dtype:
            return False
        return not torch.equal(first, last)


def _meeting(
    first: int | None,
    second: int | None,
    nearest: dict[int, int | None],
    depth: dict[int | None, int],
) -> int | None:
    """Return the last value that the ways to both pass through."""
    while first != second:
        if depth[first] < depth[second]:
            first, second = second, first
        first = nearest[first] if first is not None else None
    return first


_FLOWS: WeakKeyDictionary[Part, Flow] = WeakKeyDictionary()


def flow_of(part: Part) -> Flow:
    """Return a part as a graph, the same one as long as the part lives."""
    found = _FLOWS.get(part)
    if found is None:
        found = _FLOWS[part] = Flow(part)
    return found
