"""Pairs by value: which rows of the reference a tensor of the candidate is made of.

Each row becomes one 64-bit number, a sum of its elements' bits times fixed odd numbers, so that
rows are found by look-up, whatever their place, and not by comparing all pairs. What was found is
always compared element by element in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

import numpy as np
import torch
from torch import Tensor

from attnscope.differ.pairing.arrangement import (
    Arrangement,
    View,
    columns_of,
    from_rows,
    rows_of,
)
from attnscope.differ.pairing.tensors import Weight

MOST_RUNS = 4096  # an order with more breaks than this is chance, not packing
_FIRST = 8  # rows that are looked up before all the others are
_ROUNDINGS = 8  # of a norm, a quotient and a product
_ODD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio, as in Fibonacci hashing (Knuth, 6.4)


def narrow(weights: Iterable[Weight]) -> torch.dtype:
    """Return the coarsest float type among some tensors: values can be compared in no finer one."""
    dtypes = {weight.tensor.dtype for weight in weights if weight.tensor.is_floating_point()}
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)


def same(left: Tensor, right: Tensor, dtype: torch.dtype) -> bool:
    """Whether two tensors hold the same values in a float type; NaN equals NaN."""
    if left.shape != right.shape:
        return False
    if len(left.shape) > 1 and len(left) > 1 and not same(left[0], right[0], dtype):
        return False  # most tensors that differ do so in the first row
    left = left.detach().to("cpu", dtype)
    right = right.detach().to("cpu", dtype)
    if torch.equal(left, right):
        return True
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def rounded(left: Tensor, right: Tensor, dtype: torch.dtype) -> bool:
    """Whether two tensors, one of them computed, hold the same values within rounding."""
    if left.shape != right.shape:
        return False
    left, right = (tensor.detach().to("cpu", torch.float64) for tensor in (left, right))
    limit = _ROUNDINGS * torch.finfo(dtype).eps * float(right.abs().max()) if right.numel() else 0.0
    return bool(((left - right).abs() <= limit).all())


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of one length of the reference, sorted by their number."""

    number: np.ndarray
    source: np.ndarray
    row: np.ndarray


class ValueIndex:
    """The rows of every tensor of the reference, to be found by value.

    Args:
        reference: the tensors to look in.
        dtype: the float type in which values are compared.
    """

    def __init__(self, reference: Sequence[Weight], dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.tensors: Mapping[str, Tensor] = {weight.name: weight.tensor for weight in reference}
        self.sources = [
            (weight, view)
            for weight in reference
            if weight.constant is None
            for view in _views(weight.shape)
        ]
        self._tables: dict[int, _Table] = {}

    def find(self, weight: Weight, near: Sequence[str] = ()) -> Arrangement | None:
        """Return how a tensor is made of rows of the reference, or None where it is not.

        Args:
            weight: a tensor of the candidate, not constant.
            near: names of the reference to prefer where several hold the same rows.
        """
        best: Arrangement | None = None
        for view in _views(weight.shape):
            height, width = view.size(weight.shape)
            if height * width == 0 or (width == 1 and height > 1 and len(weight.shape) > 1):
                continue
            found = self._by_rows(weight, view, near)
            if found is not None and (best is None or _oddness(found) < _oddness(best)):
                best = found
            if best is not None and _oddness(best) == (1, 0):
                break
        return best

    def _by_rows(self, weight: Weight, view: View, near: Sequence[str]) -> Arrangement | None:
        matrix = view.matrix(weight.tensor.detach())
        table = self._table(matrix.shape[1])
        if not self._begins(matrix[:_FIRST].to("cpu", self.dtype), table):
            return None
        matrix = matrix.to("cpu", self.dtype)
        numbers = _numbers(matrix)
        low = np.searchsorted(table.number, numbers, side="left")
        high = np.searchsorted(table.number, numbers, side="right")
        anything = _constant_rows(matrix)
        if bool(((high == low) & ~anything).any()) or bool(anything.all()):
            return None
        at = self._choose(table, low, high, anything, near)
        source = np.where(at >= 0, table.source[at.clip(0)], -2)
        row = np.where(at >= 0, table.row[at.clip(0)], 0)
        self._fill(source, row, matrix)
        result = from_rows(weight.shape, view, self.sources, source, row)
        if _breaks(result) > MOST_RUNS or (
            matrix.shape[1] == 1 and 4 * _breaks(result) > matrix.shape[0]
        ):
            return None
        if not result.references or not same(weight.tensor, result.of(self.tensors), self.dtype):
            return None
        return result

    def _begins(self, matrix: Tensor, table: _Table) -> bool:
        """Whether the first rows are there at all: most tensors that are not fail at once."""
        numbers = _numbers(matrix)[~_constant_rows(matrix)]
        at = np.searchsorted(table.number, numbers).clip(0, max(len(table.number) - 1, 0))
        return bool(len(table.number)) and bool((table.number[at] == numbers).all())

    def _choose(
        self,
        table: _Table,
        low: np.ndarray,
        high: np.ndarray,
        anything: np.ndarray,
        near: Sequence[str],
    ) -> np.ndarray:
        """Return the entry of the table for each row: what continues the row before, else near."""
        chosen = np.where(anything, -1, low)
        rank = {name: place for place, name in enumerate(near)}
        before = (-1, -1)
        for i in np.flatnonzero(~anything) if bool((high - low > 1).any()) else ():
            options = range(int(low[i]), int(high[i]))
            following = [j for j in options if (table.source[j], table.row[j]) == before]
            near_by = min(options, key=lambda j: (self._rank(rank, int(table.source[j])), j))
            chosen[i] = following[0] if following else near_by
            before = (table.source[chosen[i]], table.row[chosen[i]] + 1)
        return chosen

    def _rank(self, rank: Mapping[str, int], source: int) -> tuple[int, int]:
        weight, view = self.sources[source]
        known = [rank[name] for name in weight.names if name in rank]
        return min(known, default=len(rank)), not view.plain

    def _fill(self, source: np.ndarray, row: np.ndarray, matrix: Tensor) -> None:
        """Give rows of one value (-2), which prove nothing, the place that their neighbours say."""
        for step in (1, -1):
            for i in np.flatnonzero(source == -2)[::step]:
                j = i - step
                if 0 <= j < len(source) and source[j] >= 0:
                    weight, view = self.sources[source[j]]
                    other = int(row[j]) + step
                    seen = view.matrix(weight.tensor.detach())
                    if 0 <= other < len(seen) and same(matrix[i], seen[other], self.dtype):
                        source[i], row[i] = source[j], other
        left = source == -2
        source[left] = -1
        zero = ~matrix.bool().any(dim=1).numpy()
        if bool((left & ~zero).any()):
            source[:] = -1

    def _table(self, width: int) -> _Table:
        if width not in self._tables:
            numbers, sources, rows = [], [], []
            for place, (weight, view) in enumerate(self.sources):
                if view.size(weight.shape)[1] == width:
                    found = _numbers(view.matrix(weight.tensor.detach()).to("cpu", self.dtype))
                    numbers.append(found)
                    sources.append(np.full(len(found), place))
                    rows.append(np.arange(len(found)))
            if not numbers:
                empty = np.empty(0, dtype=np.int64)
                self._tables[width] = _Table(empty, empty, empty)
            else:
                number, source, row = map(np.concatenate, (numbers, sources, rows))
                order = np.argsort(number, kind="stable")
                self._tables[width] = _Table(number[order], source[order], row[order])
        return self._tables[width]


def _views(shape: tuple[int, ...]) -> list[View]:
    """Return the ways to look at a tensor as rows that are worth a try, the plain one first."""
    if len(shape) < 2:
        return [View(tuple(range(len(shape))), 0), rows_of(len(shape))]
    if len(shape) == 2:
        return [rows_of(2), columns_of(2)]
    if len(shape) == 3:
        return [View(order, rows) for rows in (1, 2) for order in permutations(range(3))]
    inner = tuple(range(1, len(shape)))
    return [rows_of(len(shape)), View((0, *inner[1:], inner[0]), 1), columns_of(len(shape))]


def _breaks(arrangement: Arrangement) -> int:
    return sum(len(block.runs) for block in arrangement.blocks)


def _oddness(arrangement: Arrangement) -> tuple[int, int]:
    """Return how far from one whole tensor as it is: the fewer breaks and turns the better."""
    views = {block.view for block in arrangement.blocks if block.reference}
    turned = sum(not view.plain for view in (arrangement.view, *views))
    return _breaks(arrangement), turned


def _constant_rows(matrix: Tensor) -> np.ndarray:
    if matrix.shape[1] == 1:
        alone: np.ndarray = (matrix[:, 0] == 0).numpy()
        return alone
    found: np.ndarray = (matrix == matrix[:, :1]).all(dim=1).numpy()
    return found


def _numbers(matrix: Tensor) -> np.ndarray:
    """Return one number per row; equal rows have equal numbers."""
    if matrix.is_floating_point():
        words = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
        bits = (matrix + 0.0).contiguous().view(words[matrix.element_size()])  # -0.0 becomes 0.0
    else:
        bits = matrix
    factors = torch.from_numpy(_factors(matrix.shape[1]))
    found: np.ndarray = (bits.to(torch.int64) * factors).sum(dim=1).numpy()
    return found


@lru_cache(maxsize=64)
def _factors(width: int) -> np.ndarray:
    """Return fixed odd numbers, one a column."""
    with np.errstate(over="ignore"):
        mixed = (np.arange(1, width + 1, dtype=np.uint64) * np.uint64(_ODD)) ^ np.uint64(width)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(32))) | np.uint64(1)
    return mixed.view(np.int64)
