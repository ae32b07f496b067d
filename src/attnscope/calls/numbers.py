"""Per-head numbers of a call: entropy, largest weight, visible keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class HeadNumbers:
    """Means over batch and queries, one number a head. Rows of NaN (nothing visible) are left out.

    entropy: of the weights over the keys, in nats; max_weight: of each row's largest weight;
    visible: keys with a weight that is not zero, per query.
    """

    entropy: tuple[float, ...]
    max_weight: tuple[float, ...]
    visible: tuple[float, ...]

    def to_json(self) -> dict[str, list[float]]:
        """Return the numbers that the JSON formats carry."""
        return {"entropy": list(self.entropy), "max_weight": list(self.max_weight)}


def head_numbers(blocks: Iterable[Tensor]) -> HeadNumbers:
    """Sum up weights (batch, heads, queries, keys), given as blocks of queries."""
    total: Tensor | None = None
    rows: Tensor | None = None
    for block in blocks:
        weights = block.to(torch.float64)
        known = ~weights.isnan().any(-1)  # batch heads queries
        weights = torch.where(known.unsqueeze(-1), weights, 0.0)
        entropy = torch.special.entr(weights.clamp_min(0)).sum(-1)
        largest = weights.amax(-1) if weights.shape[-1] else entropy
        visible = (weights != 0).sum(-1).to(torch.float64)
        sums = torch.stack([entropy, largest, visible]).sum((1, 3))  # 3 heads
        count = known.sum((0, 2)).to(torch.float64)
        total = sums if total is None else total + sums
        rows = count if rows is None else rows + count
    if total is None or rows is None:
        return HeadNumbers((), (), ())
    means = total / rows
    entropy_, largest_, visible_ = (tuple(row.tolist()) for row in means)
    return HeadNumbers(entropy_, largest_, visible_)
