"""What is wrong with a table of sines and cosines, told by its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.checks.positions.rounding import lost_by_rounding, speeds_of
from attnscope.explain.kinds.around.sinusoids import read_sinusoid

__all__ = ["TableFault", "fault_of_table", "reads_as_sinusoid"]

_FITS = 1e-3
"""A column of float32 that is off by less is the sine or cosine that it is taken for."""

_LARGEST_BASE = 1e12
_USUAL = 1e4
_ZERO = 1e-6
_EARLY = 16
"""Places that are nearly exact in every floating type."""


@dataclass(frozen=True, slots=True)
class TableFault:
    """kind: "no cosine", "pairs", "one frequency", "steep", "doubled", "growing" or "precision"."""

    kind: str
    text: str
    error: float
    at: tuple[int, int]
    base: float | None = None


def reads_as_sinusoid(table: Tensor) -> bool:
    """Return whether the columns of (length, width) are sines and cosines of the place."""
    rows = table.detach().double()
    if rows.shape[0] < 4 or rows.shape[1] < 4:
        return False
    return read_sinusoid(rows) is not None or _kinds(rows) is not None


def _kinds(rows: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return which columns are sines and which are cosines; None: other columns are there."""
    if float(rows.abs().max()) > 1 + _FITS:
        return None
    sines, cosines = rows[0].abs() < _ZERO, (rows[0] - 1).abs() < _ZERO
    if not bool((sines | cosines).all()) or not bool(sines.any()):
        return None
    speeds = rows[1, sines].clamp(-1, 1).asin()
    at = torch.arange(len(rows), dtype=torch.float64)[:, None]
    right = float((at * speeds).sin().sub(rows[:, sines]).abs().max()) < _FITS
    return (sines, cosines) if right and bool((speeds > 0).any()) else None


def fault_of_table(
    table: Tensor, *, says_ten_thousand: bool, bases: list[float]
) -> TableFault | None:
    """Return what is wrong with a table (length, width); None: nothing, or it is no such table.

    bases: of the frequencies, that are usual. says_ten_thousand: whether the code names that base.
    """
    rows = table.detach().double()
    if rows.shape[0] < 4 or rows.shape[1] < 4 or rows.shape[1] % 2:
        return None
    top = float(rows[0].abs().max())
    if top > _ZERO:
        rows = rows / top  # tables that are scaled as a whole
    lost = _precision(rows, bases)
    if lost is not None or table.dtype in {torch.float16, torch.bfloat16}:
        return lost
    read = read_sinusoid(rows)
    if read is not None:
        return _of_base(read.base, says_ten_thousand=says_ten_thousand)
    kinds = _kinds(rows)
    if kinds is None:
        return _growing(rows)
    sines, cosines = kinds
    if not bool(cosines.any()):
        return TableFault(
            "no cosine",
            f"all {rows.shape[1]} columns are sines: the first row is zero, and half of the "
            "columns tell nothing new",
            1.0,
            (0, int(sines.nonzero()[-1])),
        )
    return _of_pairs(rows, sines, cosines) if int(sines.sum()) == int(cosines.sum()) else None


def _of_base(base: float, *, says_ten_thousand: bool) -> TableFault | None:
    if math.isclose(base, 1.0, rel_tol=_FITS):
        return TableFault("one frequency", "all pairs have the same frequency", 1.0, (0, 0), base)
    if base > _LARGEST_BASE:
        return TableFault(
            "steep",
            f"the frequencies fall so fast that the base is {base:.2g}: the width is missing "
            "from the exponent",
            1.0,
            (0, 0),
            base,
        )
    if says_ten_thousand and math.isclose(base, _USUAL**2, rel_tol=0.1):
        return TableFault(
            "doubled",
            "the frequencies are those of base 1e8 where the code says 10000: the exponent "
            "is doubled",
            1.0,
            (0, 0),
            base,
        )
    return None


def _of_pairs(rows: Tensor, sines: Tensor, cosines: Tensor) -> TableFault | None:
    speeds = rows[1, sines].clamp(-1, 1).asin()
    half = len(speeds)
    at = torch.arange(len(rows), dtype=torch.float64)[:, None]
    if half > 2 and float((speeds - speeds[0]).abs().max()) < _ZERO:
        return TableFault("one frequency", f"all {half} pairs have the same frequency", 1.0, (0, 0))
    ratio = float(speeds[0] / speeds[1].clamp_min(1e-300)) if float(speeds[1]) > 0 else float("inf")
    if half > 2 and ratio**half > _LARGEST_BASE:
        return _of_base(min(ratio**half, 1e300), says_ten_thousand=False)
    off = ((at * speeds).cos() - rows[:, cosines]).abs()
    worst = float(off.max())
    if worst <= _FITS:
        return None
    place = divmod(int(off.argmax()), half)
    return TableFault(
        "pairs",
        f"sine and cosine of a pair have different frequencies: at position {place[0]} the cosine "
        f"of pair {place[1]} is off by {worst:.2g}, so that a shift is no rotation of the pairs",
        worst,
        place,
    )


def _growing(rows: Tensor) -> TableFault | None:
    """Frequencies that grow: the exponent has the wrong sign."""
    length, width = rows.shape
    at = torch.arange(length, dtype=torch.float64)[:, None]
    speeds = 1e4 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    few = speeds < 50  # beyond that an angle in float32 is off by itself
    for sines in (rows[:, ::2], rows[:, : width // 2]):
        off = ((at * speeds).sin() - sines).abs()[:, few]
        if int(few.sum()) > 2 and float(off.max()) < _FITS:
            return TableFault(
                "growing",
                "the frequencies grow from column to column: the exponent has the wrong sign",
                1.0,
                (0, 0),
                1e-4,
            )
    return None


def _precision(rows: Tensor, bases: list[float]) -> TableFault | None:
    """Look for what half precision did to positions, frequencies or angles."""
    if len(rows) <= _EARLY:
        return None
    half = rows.shape[1] // 2
    layouts = (
        torch.complex(rows[:, 1::2].contiguous(), rows[:, ::2].contiguous()),
        torch.complex(rows[:, half:], rows[:, :half]),
        torch.complex(rows[:, :half], rows[:, half:]),
    )
    for turns in layouts:
        lost = lost_by_rounding(turns, speeds_of(bases, half))
        if lost is not None:
            return TableFault(
                "precision",
                f"the table lost its precision: {' and '.join(lost.parts)} were rounded to "
                f"{str(lost.dtype).removeprefix('torch.')}, and at position {lost.at[0]} the "
                f"cosine of pair {lost.at[1]} is {lost.found:.2f} where float64 gives "
                f"{lost.exact:.2f}",
                lost.error,
                lost.at,
            )
    return None
