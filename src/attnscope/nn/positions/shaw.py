"""Shaw's relative keys: a learned vector for each distance, which q is multiplied with."""

from __future__ import annotations

import torch
from torch import nn

from attnscope.axes import Bias, Query
from attnscope.errors import InputError
from attnscope.nn.kinds import is_count
from attnscope.nn.positions.protocol import Places, Positions, whole_distances

__all__ = ["ShawKeys"]


class ShawKeys(Positions):
    """Adds q · a[clip(key - query)] to q·k, both scaled, with a vector `a` for each distance.

    Distances are clipped to `reach` both ways; the vectors are the same for all heads. Source: Shaw
    et al. 2018, equations 4 and 5 (those of the values, equation 3, are not part of it). Others:
    `relative_key` of BERT in Hugging Face.

    Args:
        head_dim: width of one head.
        reach: the largest distance that has a vector of its own.

    Example:
        >>> ShawKeys(4, 2).bias(torch.ones(1, 2, 3, 4), torch.arange(3), torch.arange(5)).shape
        torch.Size([1, 2, 3, 5])
    """

    def __init__(self, head_dim: int, reach: int = 16) -> None:
        super().__init__()
        if not is_count(reach) or not is_count(head_dim):
            raise InputError(
                "making relative keys",
                f"head_dim={head_dim!r}, reach={reach!r}",
                "give whole numbers, 1 or more",
            )
        self.reach = reach
        self.vectors = nn.Parameter(torch.empty(2 * reach + 1, head_dim))
        nn.init.xavier_uniform_(self.vectors)

    def require(self, heads: int, head_dim: int) -> None:
        """Refuse heads of another width."""
        del heads
        if self.vectors.shape[1] != head_dim:
            raise InputError(
                "adding relative keys",
                f"vectors of width {self.vectors.shape[1]} and q of {head_dim}",
                f"make ShawKeys({head_dim})",
            )

    def bias(self, q: Query, queries: Places, keys: Places) -> Bias:
        """Return q · a for each pair, (batch, heads, queries, keys)."""
        self.require(q.shape[1], q.shape[-1])
        by_distance = q @ self.vectors.to(q.dtype).T  # batch heads queries distances
        distance = whole_distances(queries, keys).clamp(-self.reach, self.reach) + self.reach
        return by_distance.gather(-1, distance.to(q.device).expand(*q.shape[:3], -1))

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"head_dim={self.vectors.shape[1]}, reach={self.reach}"
