"""Takes a float mask apart: which keys it hides, and the bias that it adds to the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.axes import Bias
from attnscope.calls.broadcasting import collapse
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import EmptyRow
from attnscope.capture.reading.gap import low_cutoff

__all__ = ["AdditiveReading", "read_additive"]

_LARGEST_SCORE = 32.0
"""Scores of trained models stay below; a fill whose rounding exceeds it swallows them."""


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveReading:
    """What a float mask does.

    mask: keys whose value is -inf, or far below all others. bias: the rest; None: all zero.
    empty_row: what a kernel that gives zeros for rows of -inf makes of rows that see nothing.
    unknown: "empty-row" where the answer differs among them.
    """

    mask: Mask
    bias: Tensor | None
    empty_row: EmptyRow = "zero"
    unknown: tuple[str, ...] = ()


@torch.no_grad()
def read_additive(values: Bias, queries: int, keys: int) -> AdditiveReading:
    """Read a float mask added to the scores, broadcastable to (batch, heads, queries, keys).

    A row that holds one finite fill everywhere hides nothing, since a softmax does not notice what
    is added to a whole row, unless the fill is so large that adding it rounds the scores away.
    """
    infinite = values.isneginf()
    cutoff = low_cutoff(values)
    hidden = infinite if cutoff is None else infinite | (values < cutoff)
    empty = hidden.all(-1, keepdim=True)
    empty_row: EmptyRow = "zero"
    unknown: tuple[str, ...] = ()
    if bool(empty.any()):
        swallowed = empty & _swallows(values)
        nothing = infinite.all(-1, keepdim=True)
        hidden = torch.where(empty & ~swallowed, infinite, hidden)
        if bool(swallowed.any()):
            empty_row = "uniform"
            unknown = ("empty-row",) if bool(nothing.any()) else ()
    bias = values.detach().masked_fill(hidden, 0.0)
    mask = Mask.from_tensor(~hidden, queries, keys) if bool(hidden.any()) else Mask.nothing()
    return AdditiveReading(
        mask, collapse(bias, ~hidden) if bool((bias != 0).any()) else None, empty_row, unknown
    )


def _swallows(values: Tensor) -> Tensor:
    """Return the rows (…, 1) of one fill, so large that score + fill = fill in the accumulator."""
    low, high = values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
    exact = torch.float64 if values.dtype == torch.float64 else torch.float32
    spacing = low.to(exact).abs() * (torch.finfo(exact).eps / 2)
    return (low == high) & low.isfinite() & (spacing >= _LARGEST_SCORE)
