"""Compares a value of one step with that of the full pass, wherever its tokens lie."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Stretch", "same_but_for_rounding"]

_CLOSE = 2e-5
"""Relative to the largest entry: far above float32's rounding, far below a wrong position."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The tokens of one step: start to stop of `length`, in a batch of so many samples."""

    start: int
    stop: int
    length: int
    batch: int

    @property
    def count(self) -> int:
        """Number of tokens of the step."""
        return self.stop - self.start

    def agree(self, full: Tensor, step: Tensor) -> bool | None:
        """Return whether a step's value is that of the full pass; None: they can't be compared."""
        if full.dim() != step.dim() or full.dtype != step.dtype:
            return None
        if full.is_complex():
            return self.agree(torch.view_as_real(full), torch.view_as_real(step))
        if full.numel() == 0 or step.numel() == 0:  # of what there is none yet
            return None
        options = [self._readings(a, b) for a, b in zip(full.shape, step.shape, strict=True)]
        if not all(options):
            merged = self._merged(full, step)
            return merged if merged is not None else self._of_no_size(full, step)
        return any(
            _close(_cut(full, reading), _cut(step, reading, own=True))
            for reading in itertools.product(*options)
        )

    def sizes_apart(self, full: Tensor, step: Tensor) -> bool:
        """Return whether one axis alone has a size that can't be that of these tokens."""
        if full.dim() != step.dim():
            return False
        pairs = zip(full.shape, step.shape, strict=True)
        return sum(not self._readings(a, b) for a, b in pairs) == 1

    def _readings(self, full: int, step: int) -> list[tuple[int, int, int]]:
        """Return how an axis can be read: first and number in the full pass, number in the step."""
        found = []
        if full == step:
            found.append((0, full, step))
            if full > self.stop:  # memory of a fixed size, filled as far as the tokens go
                found.append((0, self.stop, self.stop))
        if full == self.length and step == self.count:
            found.append((self.start, self.count, step))
        if full == self.length and step == self.stop:
            found.append((0, self.stop, step))
        if full == self.length and step > self.stop:
            found.append((0, self.stop, self.stop))
        if full == self.length and step < self.stop:  # the last ones alone were kept
            found.append((self.stop - step, step, step))
        if {full, step} == {1, self.batch}:  # one for all samples
            found.append((0, full, step))
        return found

    def _merged(self, full: Tensor, step: Tensor) -> bool | None:
        """Compare where samples and tokens are one axis, the first."""
        sizes = (self.batch * self.length, self.batch * self.count)
        if (full.shape[0], step.shape[0]) != sizes or full.shape[1:] != step.shape[1:]:
            return None
        outer = full.unflatten(0, (self.batch, -1))[:, self.start : self.stop].flatten(0, 1)
        inner = full.unflatten(0, (-1, self.batch))[self.start : self.stop].flatten(0, 1)
        return _close(outer, step) or _close(inner, step)

    def _of_no_size(self, full: Tensor, step: Tensor) -> bool | None:
        """Return False where a step has another number of tokens than it should have."""
        pairs = [
            (a, b) for a, b in zip(full.shape, step.shape, strict=True) if not self._readings(a, b)
        ]
        return False if all(a == self.length and 0 < b < self.stop for a, b in pairs) else None


def same_but_for_rounding(full: Tensor, step: Tensor) -> bool:
    """Return whether two values are of one shape and the same."""
    return full.shape == step.shape and full.dtype == step.dtype and _close(full, step)


def _cut(tensor: Tensor, reading: tuple[tuple[int, int, int], ...], *, own: bool = False) -> Tensor:
    for axis, (start, count, mine) in enumerate(reading):
        if own:
            tensor = tensor.narrow(axis, 0, min(mine, tensor.shape[axis]))
        else:
            tensor = tensor.narrow(axis, start, count)
    return tensor


def _close(full: Tensor, step: Tensor) -> bool:
    if full.shape != step.shape:
        full, step = torch.broadcast_tensors(full, step)
    if not full.is_floating_point():
        return bool((full == step).all())
    same = (full == step) | (full.isnan() & step.isnan())
    gap = (full - step).abs().masked_fill(same, 0.0).nan_to_num(float("inf"), float("inf"))
    known = full.abs().masked_fill(~full.isfinite() | (full.abs() > 1e8), 0.0)  # noqa: PLR2004  fills
    return float(gap.max()) <= _CLOSE * max(float(known.max()), 1e-6)
