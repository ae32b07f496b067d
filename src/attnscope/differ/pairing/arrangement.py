"""How one tensor is made of rows of others: the one form that every pair of weights has.

A fused q/k/v projection, its slices, a transpose, heads in another order, rotary rows
interleaved or in halves, key/value heads copied per group, per-head matrices: all of them take
rows of the reference's tensors, looked at as matrices, and lay them out in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from attnscope.differ.pairing.tensors import Weight

Run: TypeAlias = tuple[int, int, int]
"""Rows `start`, `start + step` ... before `stop`."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor looked at as a matrix: its axes in the order `axes`, the first `rows` as rows."""

    axes: tuple[int, ...]
    rows: int

    def size(self, shape: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of the matrix that a tensor of `shape` becomes."""
        turned = [shape[axis] for axis in self.axes]
        return prod(turned[: self.rows]), prod(turned[self.rows :])

    def matrix(self, tensor: Tensor) -> Tensor:
        """Return the tensor as that matrix."""
        return tensor.permute(self.axes).reshape(self.size(tensor.shape))

    def tensor(self, matrix: Tensor, shape: Sequence[int]) -> Tensor:
        """Return the tensor of `shape` that has this matrix."""
        turned = matrix.reshape([shape[axis] for axis in self.axes])
        return turned.permute([self.axes.index(axis) for axis in range(len(self.axes))])

    @property
    def plain(self) -> bool:
        """Whether the axes stand in their own order."""
        return self.axes == tuple(range(len(self.axes)))

    @property
    def flipped(self) -> View:
        """The same matrix transposed."""
        return View((*self.axes[self.rows :], *self.axes[: self.rows]), len(self.axes) - self.rows)


def rows_of(dimensions: int) -> View:
    """Return the view of a tensor whose first axis is its rows, as `nn.Linear` has it."""
    return View(tuple(range(dimensions)), min(dimensions, 1))


def columns_of(dimensions: int) -> View:
    """Return the view of a tensor whose last axis is its rows, as Hugging Face's Conv1D has it."""
    if dimensions < 2:
        return rows_of(dimensions)
    return View((dimensions - 1, *range(dimensions - 1)), 1)


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one tensor of the reference, or, where `reference` is empty, rows of one value.

    shape: of the reference's whole tensor, which is looked at by `view`.
    """

    reference: str
    shape: tuple[int, ...]
    view: View
    runs: tuple[Run, ...]
    fill: float = 0.0

    def index(self) -> np.ndarray:
        """Return the number of each row taken, in order."""
        return expand(self.runs)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A tensor of `shape`, looked at by `view`: the rows of `blocks`, one below the other."""

    shape: tuple[int, ...]
    view: View
    blocks: tuple[Block, ...]

    @property
    def references(self) -> tuple[str, ...]:
        """The names of the reference's tensors that take part, in order, each once."""
        return tuple(dict.fromkeys(block.reference for block in self.blocks if block.reference))

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the arranged tensor, made of the reference's `tensors` (or their gradients)."""
        if self.identity:
            return tensors[self.blocks[0].reference]
        if not self.references:
            return torch.full(self.shape, self.blocks[0].fill)
        width = self.view.size(self.shape)[1]
        some = next(tensors[name] for name in self.references)
        parts = []
        for block in self.blocks:
            if block.reference:
                matrix = block.view.matrix(tensors[block.reference])
                index = torch.from_numpy(block.index()).to(matrix.device)
                parts.append(matrix.index_select(0, index).to(some.device, some.dtype))
            else:
                parts.append(some.new_full((len(block.index()), width), block.fill))
        return self.view.tensor(torch.cat(parts), self.shape)

    @property
    def identity(self) -> bool:
        """Whether this is one whole tensor of the reference as it is."""
        if len(self.blocks) != 1 or self.blocks[0].shape != self.shape:
            return False
        (block,) = self.blocks
        height = self.view.size(self.shape)[0]
        return block.view == self.view and block.runs == ((0, height, 1),)

    def to_json(self) -> dict[str, object]:
        """Return the arrangement as plain data, in the form that `map=` reads."""
        if self.identity:
            return {"from": self.blocks[0].reference}
        return {
            "axes": list(self.view.axes),
            "rows": self.view.rows,
            "blocks": [
                {
                    "from": block.reference,
                    "axes": list(block.view.axes),
                    "rows": block.view.rows,
                    "runs": [list(run) for run in block.runs],
                }
                if block.reference
                else {"fill": block.fill, "count": len(block.index())}
                for block in self.blocks
            ],
        }


def compress(index: Iterable[int]) -> tuple[Run, ...]:
    """Return the runs that spell a sequence of row numbers.

    Example:
        >>> compress([0, 2, 4, 1, 3, 5])
        ((0, 6, 2), (1, 7, 2))
    """
    rows = [int(row) for row in index]
    runs: list[Run] = []
    at = 0
    while at < len(rows):
        step = rows[at + 1] - rows[at] if at + 1 < len(rows) else 1
        end = at + 1
        while end < len(rows) and rows[end] - rows[end - 1] == step:
            end += 1
        if step < 1 or (step > 1 and end - at < 3):  # too short to be a pattern of its own
            step, end = 1, at + 1
        runs.append((rows[at], rows[at] + (end - at) * step, step))
        at = end
    return tuple(runs)


def expand(runs: Iterable[Run]) -> np.ndarray:
    """Return the row numbers that runs spell."""
    parts = [np.arange(start, stop, step, dtype=np.int64) for start, stop, step in runs]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def from_rows(
    shape: Sequence[int],
    view: View,
    sources: Sequence[tuple[Weight, View]],
    source: np.ndarray,
    row: np.ndarray,
) -> Arrangement:
    """Return the arrangement whose row i is row `row[i]` of `sources[source[i]]`.

    A source of -1 is a row of zeros.
    """
    blocks = []
    ends = [*(np.flatnonzero(np.diff(source)) + 1), len(source)]
    start = 0
    for end in ends:
        which = int(source[start])
        if which < 0:
            blocks.append(blank(int(end - start), view))
        else:
            weight, seen = sources[which]
            runs = compress(row[start:end])
            blocks.append(Block(weight.name, weight.shape, seen, runs))
        start = int(end)
    return simplified(Arrangement(tuple(shape), view, tuple(blocks)))


def whole(shape: Sequence[int], view: View, weight: Weight, seen: View) -> Arrangement:
    """Return the arrangement of all rows of one tensor in their own order."""
    return simplified(Arrangement(tuple(shape), view, (entire(weight, seen),)))


def entire(weight: Weight, view: View) -> Block:
    """Return all rows of one tensor."""
    height = view.size(weight.shape)[0]
    return Block(weight.name, weight.shape, view, ((0, height, 1),) if height else ())


def blank(rows: int, view: View, fill: float = 0.0) -> Block:
    """Return rows of one value."""
    return Block("", (), view, ((0, rows, 1),), fill)


def flat(dimensions: int) -> View:
    """Return the view of a tensor as one column: each element is a row."""
    return View(tuple(range(dimensions)), dimensions)


def simplified(arrangement: Arrangement) -> Arrangement:
    """Return the same arrangement, said plainly where it is one whole tensor as it is."""
    if not arrangement.identity or arrangement.view == rows_of(len(arrangement.shape)):
        return arrangement
    plain = rows_of(len(arrangement.shape))
    height = plain.size(arrangement.shape)[0]
    block = replace(arrangement.blocks[0], view=plain, runs=((0, height, 1),))
    return Arrangement(arrangement.shape, plain, (block,))
