"""What of the reference no tensor of the candidate follows from, and whether that matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from attnscope.differ.pairing.arrangement import Arrangement, View, from_rows, rows_of, whole
from attnscope.differ.pairing.tensors import Weight
from attnscope.differ.pairing.values import same


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Rows of a tensor of the reference that have no counterpart; `rows` of `height`."""

    weight: Weight
    rows: np.ndarray
    height: int

    @property
    def everything(self) -> bool:
        """Whether the whole tensor is meant."""
        return len(self.rows) == self.height

    @property
    def neutral(self) -> bool:
        """Whether the rows change nothing: biases of zero."""
        if self.everything:
            return self.weight.neutral
        if len(self.weight.shape) != 1:
            return False  # its rows may be those of another view
        left = self.weight.tensor.detach()[torch.from_numpy(self.rows)]
        return not bool(left.bool().any())

    def __str__(self) -> str:
        """Return the name, the rows and the shape."""
        part = "" if self.everything else f" ({len(self.rows)} of its {self.height} rows)"
        return f"{self.weight.name} {self.weight.shape}{part}"


def uncovered(reference: Iterable[Weight], arrangements: Iterable[Arrangement]) -> list[Uncovered]:
    """Return the tensors of the reference that are not taken, or not in all their rows."""
    taken: dict[str, dict[View, list[np.ndarray]]] = {}
    for arrangement in arrangements:
        for block in arrangement.blocks:
            taken.setdefault(block.reference, {}).setdefault(block.view, []).append(block.index())
    found = []
    for weight in reference:
        views = taken.get(weight.name, {})
        plain = rows_of(len(weight.shape))
        left = [_missing(view, weight, parts) for view, parts in views.items()]
        height = plain.size(weight.shape)[0]
        if not left:
            found.append(Uncovered(weight, np.arange(height), height))
        elif all(len(rows) for rows, _ in left):
            rows, height = min(left, key=lambda one: len(one[0]))
            found.append(Uncovered(weight, rows, height))
    return found


def _missing(view: View, weight: Weight, parts: list[np.ndarray]) -> tuple[np.ndarray, int]:
    height = view.size(weight.shape)[0]
    seen = np.zeros(height, dtype=bool)
    for rows in parts:
        seen[rows] = True
    return np.flatnonzero(~seen), height


def copied_rows(left: Uncovered, dtype: torch.dtype) -> Arrangement | None:
    """Return how rows without counterpart equal rows that have one, as in expanded kv heads."""
    if left.everything:
        return None
    weight, plain = left.weight, rows_of(len(left.weight.shape))
    if plain.size(weight.shape)[0] != left.height:
        return None
    matrix = plain.matrix(weight.tensor.detach()).to("cpu", dtype)
    missing = np.zeros(left.height, dtype=bool)
    missing[left.rows] = True
    known: dict[bytes, int] = {}
    for row in np.flatnonzero(~missing):
        known.setdefault(_key(matrix[row]), int(row))
    index = np.arange(left.height)
    for row in left.rows:
        if (found := known.get(_key(matrix[row]))) is None:
            return None
        index[row] = found
    source = np.zeros(left.height, dtype=np.int64)
    return from_rows(weight.shape, plain, [(weight, plain)], source, index)


def _key(row: torch.Tensor) -> bytes:
    return bytes(row.to(torch.float64).numpy().tobytes())


def twin(
    left: Uncovered,
    others: Iterable[Weight],
    dtype: torch.dtype,
) -> Arrangement | None:
    """Return the tensor of the reference that holds the same values and has a counterpart.

    Args:
        left: a tensor without counterpart.
        others: tensors of the reference that have one, where this one's would be.
        dtype: in which values are compared.
    """
    if not left.everything:
        return None
    view = rows_of(len(left.weight.shape))
    for other in others:
        if other is not left.weight and same(other.tensor, left.weight.tensor, dtype):
            return whole(left.weight.shape, view, other, view)
    return None
