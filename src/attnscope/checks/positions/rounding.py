"""Tables of angles whose positions, frequencies or products were rounded to half precision.

Each place where rounding may have happened is tried: a table is at fault where one of them gives
its very numbers, and the exact formula doesn't.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from attnscope.checks.attributes import attribute
from attnscope.checks.subject.subject import Subject

__all__ = ["Rounding", "bases_of", "lost_by_rounding", "speeds_of"]

_BASES = (1e4, 5e5, 1e6)
_WRONG = 0.05
"""Error of a cosine or sine far beyond its own rounding (1/256 at most, in bfloat16)."""

_SAME = 0.02
_PARTS = ("positions", "exponents", "frequencies", "angles")


@dataclass(frozen=True, slots=True)
class Rounding:
    """parts: what was rounded, to which type. error: the largest, at (position, column)."""

    parts: tuple[str, ...]
    dtype: torch.dtype
    error: float
    at: tuple[int, int]
    found: float
    exact: float


def lost_by_rounding(turns: Tensor, speeds: Iterator[Tensor]) -> Rounding | None:
    """Return what half precision did to exp(i · position · speed), (length, columns)."""
    turns = turns.to(torch.complex128)
    at = torch.arange(len(turns), dtype=torch.float64)[:, None]
    for each in speeds:
        exact = torch.polar(torch.ones_like(at * each), at * each)
        off = (turns - exact).abs()
        if float(off.max()) <= _WRONG:
            return None
        for dtype, parts in _ways():
            angles = _rounded(at, each, dtype, parts)
            if float((turns - torch.polar(torch.ones_like(angles), angles)).abs().max()) > _SAME:
                continue
            row, column = divmod(int(off.argmax()), turns.shape[1])
            return Rounding(
                parts,
                dtype,
                float(off.max()),
                (row, column),
                float(turns[row, column].real),
                float(exact[row, column].real),
            )
    return None


def _ways() -> Iterator[tuple[torch.dtype, tuple[str, ...]]]:
    """Iterate over the types and the parts that are rounded to them, few parts first."""
    choices = sorted(product((False, True), repeat=len(_PARTS)), key=sum)
    for chosen in choices[1:]:
        for dtype in (torch.bfloat16, torch.float16):
            yield dtype, tuple(p for p, taken in zip(_PARTS, chosen, strict=True) if taken)


def _rounded(at: Tensor, speeds: Tensor, dtype: torch.dtype, parts: tuple[str, ...]) -> Tensor:
    places = at.to(dtype).double() if "positions" in parts else at
    rates = speeds.log().to(dtype).double().exp() if "exponents" in parts else speeds
    rates = rates.to(dtype).double() if "frequencies" in parts else rates
    angles = places * rates
    return angles.to(dtype).double() if "angles" in parts else angles


def bases_of(subject: Subject) -> list[float]:
    """Return the base that a configuration names, and the usual ones."""
    config = subject.config
    scaling = attribute(config, "rope_parameters")
    named = [attribute(config, "rope_theta"), attribute(config, "rotary_emb_base")]
    named.append(scaling.get("rope_theta") if isinstance(scaling, dict) else None)
    known = [float(base) for base in named if isinstance(base, int | float) and base > 1]
    return list(dict.fromkeys([*known, *_BASES]))


def speeds_of(bases: list[float], columns: int) -> Iterator[Tensor]:
    """Iterate over the frequencies of all columns, for the usual formulas and layouts."""
    for base in bases:
        for pairs in dict.fromkeys((columns, columns // 2)):
            if pairs < 2 or columns % pairs:
                continue
            steps = torch.arange(pairs, dtype=torch.float64)
            for speeds in (base ** (-steps / pairs), base ** (-steps / (pairs - 1))):
                if pairs == columns:
                    yield speeds
                else:
                    yield torch.cat((speeds, speeds))
                    yield speeds.repeat_interleave(2)
