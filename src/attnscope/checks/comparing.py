"""How far two outputs are apart, along one axis."""

from __future__ import annotations

from torch import Tensor

from attnscope.checks.rule import Skipped

__all__ = ["finite_gap", "gap_along", "gap_of"]


def gap_of(before: Tensor, after: Tensor) -> Tensor:
    """Return the absolute difference of every entry, float64.

    Equal infinities and NaN on both sides are no difference; NaN on one side is an infinite one.

    Raises:
        Skipped: the shapes differ.
    """
    if before.shape != after.shape:
        raise Skipped(f"the output changes its shape: {tuple(before.shape)}, {tuple(after.shape)}")
    same = (before == after) | (before.isnan() & after.isnan())
    gap = (before.double() - after.double()).abs()
    return gap.masked_fill(same, 0.0).nan_to_num(float("inf"), float("inf"))


def gap_along(before: Tensor, after: Tensor, axis: int) -> Tensor:
    """Return the largest difference at each index of an axis; errors as `gap_of`."""
    gap = gap_of(before, after).movedim(axis, 0)
    return gap if gap.dim() == 1 else gap.flatten(1).amax(1)


def finite_gap(before: Tensor, after: Tensor, where: Tensor | None = None) -> float | None:
    """Return the largest difference of entries that are finite in both; None: there is none.

    What is not finite has a rule of its own. where: True = the entry counts. None, too, where the
    shapes differ.
    """
    if before.shape != after.shape:
        return None
    gap = (before.double() - after.double()).abs()
    counted = before.isfinite() & after.isfinite()
    gap = gap[counted if where is None else counted & where.to(gap.device)]
    return float(gap.max()) if gap.numel() else None
