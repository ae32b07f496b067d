"""How far two tensors are apart, entry by entry, and whether that is more than rounding.

Both sides are compared in float64, where what they compute shows and how they round does not. What
is left to allow for are constants that were made in the types of the model (tables of sines,
slopes, scales), so the limit of an entry is some roundings of the largest entry of its row.
Nothing is averaged: one wrong entry is a difference.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.tolerance import unit_roundoff

__all__ = ["Gap", "Tolerance", "compare"]

_ROUNDINGS = 16.0
"""Roundings of a row's largest entry that constants may differ by: tables of angles up to 16."""

_FLOOR = 1.0
"""Roundings of the largest entry of all, for rows in which everything cancels."""

_TABLES = 2.0
"""Roundings of a half type that constants held in it may be apart."""

_WIDE = 4096.0
"""Roundings of float64 that two long computations in different order may be apart."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as rounding.

    roundoff: unit roundoff of the type whose constants are trusted. factor: multiplies the limit;
    1.0 is what arithmetic gives.
    """

    roundoff: float
    factor: float = 1.0

    @classmethod
    def of(cls, dtypes: set[torch.dtype], factor: float = 1.0) -> Tolerance:
        """Return the tolerance for models that compute in these types.

        Half types are compared in float64 like the others, so that float32 is the coarsest: their
        own rounding does not show, and the tables in their models are made in float32. Two models
        of different types can't have the same weights: then the coarser type's rounding is allowed.
        """
        if len(dtypes) > 1:
            return cls(max(unit_roundoff(dtype) for dtype in dtypes), factor)
        if dtypes and dtypes <= {torch.float64, torch.complex128}:
            return cls(_WIDE / _ROUNDINGS * unit_roundoff(torch.float64), factor)
        return cls(unit_roundoff(torch.float32), factor)

    def limit(self, expected: Tensor) -> Tensor:
        """Return the largest difference of each row that is rounding (last axis of size 1)."""
        if not expected.numel():
            return expected.new_zeros((*expected.shape[:-1], 1))
        sizes = expected.abs().nan_to_num(0.0, posinf=0.0, neginf=0.0)
        rows = sizes.amax(-1, keepdim=True) if sizes.dim() else sizes
        unit = self.roundoff * self.factor
        return unit * (_ROUNDINGS * rows + _FLOOR * sizes.max())

    def excess_of(self, tables: Collection[torch.dtype]) -> float:
        """Return the excess up to which constants held in these types may be apart.

        Rotary frequencies after `model.half()` are such constants: they differ from those that are
        computed in float32, which is a difference, and seldom the one that is looked for.
        """
        coarsest = max((unit_roundoff(dtype) for dtype in tables), default=0.0)
        return max(1.0, _TABLES / _ROUNDINGS * coarsest / (self.roundoff * self.factor))

    def around(self, size: float) -> float:
        """Return how much of a difference is rounding beside numbers of this size."""
        return self.roundoff * self.factor * _ROUNDINGS * size

    def to_json(self) -> dict[str, float]:
        """Return the fields."""
        return {"roundoff": self.roundoff, "factor": self.factor}


@dataclass(frozen=True, slots=True)
class Gap:
    """The difference of two tensors.

    largest: largest difference, relative to the largest entry of the expected tensor; infinite for
    other shapes and for non-finite values that are not the same on both sides. excess: the same
    relative to the limit of the entry's row; above 1 the tensors differ. index: where; values: of
    candidate and reference there. verdict: "equal", "numbers", "non-finite" or "shape".
    """

    largest: float
    excess: float
    index: tuple[int, ...] = ()
    values: tuple[float, float] | None = None
    verdict: str = "equal"

    @property
    def equal(self) -> bool:
        """Whether no entry differs by more than rounding."""
        return self.verdict == "equal"

    def to_json(self) -> dict[str, Any]:
        """Return the fields; infinite numbers as text, which JSON has no numbers for."""
        return {
            "largest": finite(self.largest),
            "excess": finite(self.excess),
            "index": list(self.index),
            "values": [finite(value) for value in self.values] if self.values else None,
            "verdict": self.verdict,
        }


def finite(number: float) -> float | str:
    """Return `number`, or its name where JSON has no number for it."""
    return number if abs(number) < float("inf") else str(number)


def compare(
    actual: Tensor, expected: Tensor, tolerance: Tolerance, limit: Tensor | None = None
) -> Gap:
    """Compare two tensors entry by entry.

    limit: to be used instead of the tolerance's own (…, 1).
    Equal infinities and NaN on both sides are equal.
    """
    if actual.shape != expected.shape:
        return Gap(float("inf"), float("inf"), verdict="shape")
    if not actual.numel():
        return Gap(0.0, 0.0)
    actual, expected = actual.detach().double(), expected.detach().double()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    gap = (actual - expected).abs().masked_fill(same, 0.0)
    allowed = tolerance.limit(expected) if limit is None else limit
    gap = gap.masked_fill(allowed.isposinf(), 0.0)
    broken = ~gap.isfinite()
    excess = torch.where(gap == 0, 0.0, gap / allowed.clamp_min(1e-300))
    excess = excess.masked_fill(broken, float("inf"))
    worst = int(excess.argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), excess.shape))
    over = float(excess.flatten()[worst])
    values = float(actual.flatten()[worst]), float(expected.flatten()[worst])
    if bool(broken.any()):
        return Gap(float("inf"), float("inf"), index, values, "non-finite")
    scale = expected.abs()[expected.isfinite()].max() if bool(expected.isfinite().any()) else 1.0
    largest = float(gap.max() / max(float(scale), 1e-30))
    return Gap(largest, over, index, values, "equal" if over <= 1.0 else "numbers")
