"""Runs recorded operations on raw scores of our own choice, and compares what they answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from attnscope.calls.tolerance import unit_roundoff

__all__ = ["LEVELS", "Operations", "Probe", "close", "differs", "some_rows"]

Operations: TypeAlias = Callable[[Tensor], Tensor]

LEVELS = (0.0, 1.0, -1.0)
"""The constants that raw is set to: their products with a scale are exact."""

_LARGE = 1 << 22
_SAMPLE = 64
_ALL_ROWS = 1 << 18
_STEPS = 8
_HASH = (
    2654435761  # Knuth's multiplier: neighbours get unrelated levels, and no generator is touched
)


@dataclass(frozen=True, slots=True)
class Probe:
    """The operations from raw to scores, with the type that they could be run in.

    roundoff: unit roundoff of an answer; far: a power of two that saturates any soft cap in use.
    reference: (batch, heads, queries, 1), the key of each row that others are counted from, where
    the operations subtract a number from each row; None: answers are taken as they are.
    """

    operations: Operations
    shape: torch.Size
    device: torch.device
    dtype: torch.dtype
    roundoff: float
    far: float
    reference: Tensor | None = None

    @classmethod
    def of(cls, operations: Operations, raw: Tensor, scores: Tensor) -> Probe:
        """Find the type to probe in: float64 where the operations take it and memory allows."""
        answer: Tensor | None = None
        dtype = torch.float64
        if raw.numel() <= _LARGE:
            try:
                answer = operations(torch.zeros_like(raw, dtype=dtype))
            except (RuntimeError, TypeError, ValueError, NotImplementedError):
                answer = None  # a kernel that wants the program's own type
        if answer is None or answer.shape != scores.shape:
            dtype = raw.dtype
            answer = operations(torch.zeros_like(raw))
        roundoff = unit_roundoff(answer.dtype)
        if answer.dtype != torch.float64:
            roundoff = max(roundoff, unit_roundoff(raw.dtype))
        half = torch.float16 in {dtype, answer.dtype, raw.dtype}
        return cls(operations, raw.shape, raw.device, dtype, roundoff, 2.0 ** (12 if half else 20))

    def at(self, raw: Tensor) -> Tensor:
        """Return the answer to `raw`, not rounded further."""
        raw = raw.to(self.dtype, copy=True)
        if self.reference is not None:
            raw.scatter_(-1, self.reference, 0.0)
        answer = self.operations(raw)
        if answer.dtype not in {torch.float32, torch.float64}:
            answer = answer.float()
        if self.reference is not None:
            answer = answer - answer.gather(-1, self.reference)
        return answer

    def constant(self, level: float) -> Tensor:
        """Return the answer to raw = `level` everywhere."""
        return self.at(torch.full(self.shape, level, dtype=self.dtype, device=self.device))

    def follows(self, levels: tuple[Tensor, ...], axes: tuple[int, ...]) -> bool:
        """Say whether entries answer to their own raw alone when raw varies along `axes`.

        `levels`: the answers to `LEVELS`. Each entry is set to one of them, the same along the
        axes that are not named, and has to answer what it did when all were set to that one.
        Of a large tensor some rows are compared; all of them take part.
        """
        sizes = [size if axis in axes else 1 for axis, size in enumerate(self.shape)]
        count = torch.Size(sizes).numel()
        index = torch.arange(1, count + 1, device=self.device)
        choice = (((index * _HASH) >> 16) % len(LEVELS)).view(sizes)
        raw = torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        keys = self.shape[-1]
        expected = levels[0][..., :keys]
        for number, level in enumerate(LEVELS[1:], start=1):
            raw = raw.masked_fill(choice == number, level)
            expected = torch.where(choice == number, levels[number][..., :keys], expected)
        if self.reference is not None:
            at_zero = levels[0][..., :keys].gather(-1, self.reference)
            expected = expected.scatter(-1, self.reference, at_zero)
        expected = torch.cat([expected, levels[0][..., keys:]], -1)
        rows = some_rows(self.shape, self.device)
        return close(self.at(raw)[..., rows, :], expected[..., rows, :], self.roundoff)


def some_rows(shape: torch.Size, device: torch.device) -> Tensor:
    """Return the indices of all queries, or of 64 spread evenly where all are many."""
    queries = shape[-2]
    if shape.numel() <= _ALL_ROWS or queries <= _SAMPLE:
        return torch.arange(queries, device=device)
    return torch.linspace(0, queries - 1, _SAMPLE, device=device).round().long()


def close(a: Tensor, b: Tensor, roundoff: float) -> bool:
    """Say whether entries agree within 8 roundings of numbers of their size, and of 1."""
    size = torch.maximum(a.abs(), b.abs()).clamp_min(1.0)
    near = (a - b).abs() <= _STEPS * roundoff * size
    return bool((near | ~differs(a, b)).all())


def differs(a: Tensor, b: Tensor) -> Tensor:
    """Return where two tensors are not the same; NaN is the same as NaN."""
    return (a != b) & ~(a.isnan() & b.isnan())
