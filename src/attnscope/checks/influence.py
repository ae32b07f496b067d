"""How far a change of some inputs reaches, operation by operation, and where it goes too far.

The base run's own operations are run twice in float64: as they were, and with some values changed.
So an entry that moves depends on what was changed, whatever rounding does, and the first operation
whose result moves where its operands did not is the one that mixes what should stay apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.capture.tape import Tape

__all__ = ["Allowed", "differs", "first_mixing", "moved"]

_MOVED = 1e-9
"""Relative to the largest entry: far above float64's rounding, far below any real influence."""

_FILL = 1e8
"""From here on an entry hides a score; it is none."""


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which indices along an axis may move.

    indices: boolean, one for each index of the axis (tokens, or samples): True = may move.
    """

    indices: Tensor

    @property
    def size(self) -> int:
        """Length of the axis."""
        return len(self.indices)

    def holds(self, moved_entries: Tensor) -> bool:
        """Return whether all entries that moved lie at allowed indices of some axis of that size.

        A tensor with two such axes (queries and keys) may move in allowed rows and columns. An axis
        that holds this one merged with others (batch·heads) is taken apart in any order.
        """
        if not bool(moved_entries.any()):
            return True
        for axis in range(moved_entries.dim()):
            for outside in self._outside(moved_entries, axis):
                if not bool(outside.any()):
                    return True
        return self._in_rows_and_columns(moved_entries)

    def _outside(self, entries: Tensor, axis: int) -> Iterator[Tensor]:
        """Iterate over the entries that moved at indices that are not allowed, for each reading."""
        size, rest = entries.shape[axis], entries.shape[axis] // self.size if self.size else 0
        if size == self.size:
            yield entries.movedim(axis, 0)[~self.indices]
        elif rest > 1 and size % self.size == 0:
            for outer in [each for each in range(1, rest + 1) if rest % each == 0]:
                apart = entries.unflatten(axis, (outer, self.size, rest // outer))
                yield apart.movedim(axis + 1, 0)[~self.indices]

    def _in_rows_and_columns(self, entries: Tensor) -> bool:
        axes = [axis for axis in range(entries.dim()) if entries.shape[axis] == self.size]
        if len(axes) < 2:
            return False
        rest = entries
        for axis in axes:
            shape = [1] * entries.dim()
            shape[axis] = self.size
            rest = rest & ~self.indices.view(shape)
        return not bool(rest.any())


def moved(
    tape: Tape, changed: Mapping[int, Tensor], among: Collection[int] | None = None
) -> dict[int, Tensor]:
    """Return for every value that depends on changed ones which of its entries moved (boolean).

    changed: other tensors for some values of the run. among: the values that are asked about; None:
    all.
    """
    wanted = [value for value in _downstream(tape, changed) if among is None or value in among]
    before = tape.as_made(wanted)
    after = tape.run(wanted, changed, wide=True, as_made=tape.overwritten)
    return {value: differs(before[value], after[value]) for value in wanted}


def first_mixing(tape: Tape, entries: Mapping[int, Tensor], allowed: Allowed) -> Operation | None:
    """Return the first operation whose result moves where it must not, of operands that don't."""
    outside: set[int] = set()
    for operation in tape.operations:
        made = [v for v in operation.defines if v in entries and not allowed.holds(entries[v])]
        if not made:
            continue
        if outside.isdisjoint(operation.values()):
            return operation
        outside.update(made)
    return None


def _downstream(tape: Tape, changed: Mapping[int, Tensor]) -> list[int]:
    reached = set(changed)
    found: list[int] = []
    for operation in tape.operations:
        if reached.isdisjoint(operation.needs) and reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        found += operation.defines
    return found


def differs(before: Tensor, after: Tensor) -> Tensor:
    """Return which entries of two float64 results are not the same but for rounding.

    What was put in to hide something (-1e9 and the like) is no measure for the other entries.
    """
    if not before.is_floating_point() or not before.numel():
        return before != after
    if torch.equal(before, after):  # most do: nothing that was changed reaches them
        return torch.zeros_like(before, dtype=torch.bool)
    size = before.abs().nan_to_num(0.0, 0.0, 0.0)
    plain = size < _FILL
    scale = size[plain].max() if bool(plain.any()) else size.max()
    bound = _MOVED * torch.where(plain, scale.clamp_min(1e-300), size)
    same = (before == after) | (before.isnan() & after.isnan())
    gap = (before - after).abs().nan_to_num(float("inf"))
    return ~same & (gap > bound)
