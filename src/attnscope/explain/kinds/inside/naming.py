"""What a number is, in the words of the field: 0.125 = 1/√d_model."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose, log, sqrt

import torch
from torch import Tensor

__all__ = ["Names", "number", "numbers"]

_SAME = 1e-6
"""Relative distance of two numbers that are one: a float32 beside the float64 of its formula."""

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Names:
    """Formulas over the sizes of an attention, by value; the field's usual ones first.

    sizes: (name, size), such as ("head_dim", 16). Names of the same number are all kept.
    """

    sizes: tuple[tuple[str, int], ...]

    def formulas(self) -> list[tuple[str, float]]:
        """Return every formula with its value."""
        found: list[tuple[str, float]] = [("1 (not scaled)", 1.0)]
        for name, size in self.sizes:
            root = sqrt(size)
            found += [(f"1/√{name}", 1 / root), (f"1/{name}", 1 / size), (f"√{name}", root)]
        for name, size in self.sizes:
            found += [(f"{name}", float(size)), (f"{name}^-1/4", size**-0.25)]
        return found

    def of(self, value: float) -> str:
        """Return the number with its names: "0.25 = 1/√head_dim".

        Numbers of heads, keys and queries are named where no width is it: they meet by chance.
        """
        names = [name for name, other in self.formulas() if isclose(value, other, rel_tol=_SAME)]
        if "1 (not scaled)" in names:
            return "1 (not scaled)"
        widths = [name for name in names if "_dim" in name or "d_model" in name]
        return " = ".join([number(value), *(widths or names)])

    def legend(self, *texts: str) -> str:
        """Return the sizes that the texts name: " (head_dim 16, d_model 64)", or nothing."""
        used = [f"{name} {size}" for name, size in self.sizes if any(name in t for t in texts)]
        return f" ({', '.join(used)})" if used else ""


def number(value: float) -> str:
    """Return six significant digits, fewer where they say the same."""
    return f"{value:.6g}"


def numbers(values: Tensor) -> str:
    """Return the numbers of a tensor, the first eight of them."""
    flat = values.flatten().tolist()
    shown = ", ".join(f"{float(one):.4g}" for one in flat[:_SHOWN])
    return shown if len(flat) <= _SHOWN else f"{shown}, … ({len(flat)} numbers)"


def ratio_name(ratio: float) -> str:
    """Return a ratio with what it is: "0.693147 = ln 2 (powers of 2 instead of e)"."""
    for value, name in ((log(2), "ln 2: powers of 2 instead of e"), (1 / log(2), "1/ln 2")):
        if isclose(ratio, value, rel_tol=_SAME):
            return f"{number(ratio)} = {name}"
    return number(ratio)


def single(values: Tensor) -> float | None:
    """Return the one number that a tensor holds everywhere, to rounding; None: several."""
    first = values.flatten()[0]
    same = bool(torch.isclose(values, first, rtol=_SAME, atol=0.0).all())
    return float(first) if same else None
