"""Reads the formula of a sinusoidal table of positions from its numbers.

`sin(p · θ^(−i/spread))` and its cosine, i counting the frequencies. Source: Vaswani et al.,
Attention Is All You Need (2017), section 3.5 (interleaved, spread = width/2); tensor2tensor and
fairseq lay sines and cosines out one after the other, with spread = width/2 − 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.explain.reading.rotations import rounded

__all__ = ["Sinusoid", "read_sinusoid"]

_ALIKE = 1e-4
"""A table that a model keeps in float32 is off by roundings of its angles."""


@dataclass(frozen=True, slots=True)
class Sinusoid:
    """A table. layout: "interleaved" or "concatenated"; swapped: cosine where sine is usual.

    begin: the first position; spread: what i is divided by in the exponent.
    """

    layout: str
    swapped: bool
    base: float
    spread: float
    begin: float = 0.0

    def is_like(self, other: Sinusoid) -> bool:
        """Return whether both are the same table, but for how surely the base is known."""
        known = replace(self, base=other.base)
        return known == other and math.isclose(self.base, other.base, rel_tol=1e-3)

    def table(self, length: int, width: int) -> Tensor:
        """Return the table, (length, width), float64."""
        half = width // 2
        exponents = torch.arange(half, dtype=torch.float64) / self.spread
        at = torch.arange(length, dtype=torch.float64) + self.begin
        angles = at[:, None] * self.base ** (-exponents)
        pair = (angles.sin(), angles.cos())
        if self.swapped:
            pair = pair[::-1]
        if self.layout == "interleaved":
            return torch.stack(pair, -1).flatten(1)
        return torch.cat(pair, -1)


def read_sinusoid(table: Tensor) -> Sinusoid | None:
    """Return the formula of a table (length, width); None: it has none of this form."""
    length, width = table.shape
    half = width // 2
    if width % 2 or half < 2 or length < 2:
        return None
    table = table.double()
    for layout in ("interleaved", "concatenated"):
        first, second = (
            (table[:, ::2], table[:, 1::2])
            if layout == "interleaved"
            else (table[:, :half], table[:, half:])
        )
        for swapped in (False, True):
            sine, cosine = (second, first) if swapped else (first, second)
            found = _fit(torch.complex(cosine, sine), layout, swapped=swapped)
            if (
                found is not None
                and float((found.table(length, width) - table).abs().max()) < _ALIKE
            ):
                return found
    return None


def _fit(turns: Tensor, layout: str, *, swapped: bool) -> Sinusoid | None:
    if float((turns.abs() - 1).abs().max()) > _ALIKE:
        return None
    steps = (turns[1:] * turns[:-1].conj()).mean(0).angle()
    if float(steps.min()) <= 0:
        return None
    half, logs = len(steps), steps.log()
    slope = float((logs[-1] - logs[0]) / (half - 1))
    begin = round(float(turns[0, 0].angle() / steps[0]))
    guesses = [
        Sinusoid(layout, swapped, rounded(math.exp(-slope * s)), s, begin) for s in (half, half - 1)
    ]
    # A round base speaks for one of the two; a table alone can't tell them apart.
    return min(guesses, key=lambda guess: (guess.base != _short(guess.base), guess.spread != half))


def _short(base: float) -> float:
    return float(f"{base:.2g}")
