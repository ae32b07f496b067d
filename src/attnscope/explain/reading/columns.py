"""Finds the features of one projection among those of another, by their values.

A projection is split into heads, and a fused one into q, k and v, by taking features in some order.
Which order that was is read off: each feature, over all samples and positions, is looked up among
the features that the reference has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Columns", "Pool", "find_columns"]

_CLOSE = 1e-7
"""Distance of two signatures, relative to the largest, below which features are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Features to look among: the tensor of one stage, (batch, heads, length, head_dim)."""

    name: str
    tensor: Tensor

    @property
    def rows(self) -> Tensor:
        """One row a feature, heads outermost: (heads · head_dim, batch · length)."""
        turned: Tensor = self.tensor.permute(1, 3, 0, 2)
        return turned.reshape(turned.shape[0] * turned.shape[1], -1)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Where each feature of a tensor comes from.

    pool: index into the pools; head, feature: inside its tensor; all (heads, head_dim).
    """

    pools: tuple[Pool, ...]
    pool: Tensor
    head: Tensor
    feature: Tensor

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the pools that features come from."""
        return tuple(self.pools[int(at)].name for at in self.pool.unique())

    @property
    def heads(self) -> tuple[int, ...] | None:
        """The head that each whole head is; None: heads are not kept whole and in order."""
        size = self.feature.shape[1]
        whole = bool((self.feature == torch.arange(size)).all())
        if len(self.names) > 1 or not whole or not bool((self.head == self.head[:, :1]).all()):
            return None
        return tuple(int(head) for head in self.head[:, 0])

    @property
    def order(self) -> tuple[int, ...] | None:
        """The order of features that all heads share; None: they don't, or heads change."""
        own = torch.arange(self.head.shape[0])[:, None]
        same = bool((self.feature == self.feature[:1]).all())
        if len(self.names) > 1 or not same or not bool((self.head == own).all()):
            return None
        return tuple(int(feature) for feature in self.feature[0])

    def tensor(self) -> Tensor:
        """Return the tensor that these features make, from the pools."""
        heads, size = self.head.shape
        found = [
            self.pools[int(pool)].tensor[:, int(head), :, int(feature)]
            for pool, head, feature in zip(
                self.pool.flatten(), self.head.flatten(), self.feature.flatten(), strict=True
            )
        ]
        flat = torch.stack(found, -1)  # (batch, length, heads · head_dim)
        return flat.view(*flat.shape[:2], heads, size).transpose(1, 2)


def find_columns(tensor: Tensor, pools: Sequence[Pool], slack: float) -> Columns | None:
    """Return where each feature of `tensor` comes from; None: some come from none of the pools.

    Pools that come first are preferred; in each, a feature that stays at its place is.
    """
    rows = Pool("", tensor).rows
    count, heads, size = rows.shape[0], tensor.shape[1], tensor.shape[3]
    pool = torch.full((count,), -1)
    place = torch.zeros(count, dtype=torch.long)
    for index, each in enumerate(pools):
        others = each.rows
        if others.shape[1] != rows.shape[1]:
            continue
        left = (pool < 0).nonzero().flatten()
        found = _matches(rows[left], others, left, slack)
        pool[left[found >= 0]] = index
        place[left] = torch.where(found >= 0, found, place[left])
    if bool((pool < 0).any()):
        return None
    widths = torch.tensor([each.tensor.shape[3] for each in pools])[pool]
    shape = (heads, size)
    return Columns(
        tuple(pools), pool.view(shape), (place // widths).view(shape), (place % widths).view(shape)
    )


def _matches(rows: Tensor, others: Tensor, own: Tensor, slack: float) -> Tensor:
    """Return the row of `others` that each row is; -1: none."""
    found = torch.full((len(rows),), -1)
    if not len(rows):
        return found
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(rows.shape[1], generator=generator, dtype=rows.dtype)
    ours, theirs = rows @ mix, others @ mix
    reach = max(_CLOSE * float(theirs.abs().max()), slack * float(mix.abs().sum()))
    ordered, order = theirs.sort()
    low = torch.searchsorted(ordered, ours - reach)
    high = torch.searchsorted(ordered, ours + reach, right=True)
    for at in range(len(rows)):
        near = order[int(low[at]) : int(high[at])]
        fitting = near[(others[near] - rows[at]).abs().amax(-1) <= slack] if len(near) else near
        if len(fitting):
            stays = fitting == own[at]
            found[at] = own[at] if bool(stays.any()) else fitting.min()
    return found
