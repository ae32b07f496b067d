"""T5's relative positions: a learned number per head for each bucket of distances."""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor, nn

from attnscope.axes import Bias, Query
from attnscope.errors import InputError
from attnscope.nn.kinds import is_count
from attnscope.nn.positions.protocol import Places, Positions, whole_distances

__all__ = ["T5Bias", "t5_buckets"]


class T5Bias(Positions):
    """Adds table[bucket(key - query), head] to the scores.

    Near distances have a bucket each, far ones share them on a logarithmic scale. Source: Raffel et
    al. 2020, section 2.1 and their code. Others: `relative_attention_bias` in Hugging Face. T5 has
    one table for all layers: hand the same object to each.

    Args:
        heads: number of heads.
        buckets: number of buckets, of both directions where `both_ways`.
        reach: from this distance on all are in the last bucket.
        both_ways: keys after the query have buckets of their own (an encoder's); else all of them
            are in the bucket of distance 0 (a decoder's).

    Example:
        >>> bias = T5Bias(2)
        >>> bias.bias(torch.zeros(1, 2, 3, 4), torch.arange(3), torch.arange(5)).shape
        torch.Size([1, 2, 3, 5])
    """

    def __init__(
        self, heads: int, buckets: int = 32, reach: int = 128, *, both_ways: bool = True
    ) -> None:
        super().__init__()
        if not all(is_count(size) for size in (heads, buckets, reach)):
            raise InputError(
                "making the buckets of T5",
                f"heads={heads!r}, buckets={buckets!r}, reach={reach!r}",
                "give whole numbers, 1 or more",
            )
        exact = buckets // (4 if both_ways else 2)
        if exact < 1 or reach <= exact or (both_ways and buckets % 2):
            raise InputError(
                "making the buckets of T5",
                f"buckets={buckets}, reach={reach}, both_ways={both_ways}",
                "give an even number of 4 or more buckets (2 or more one way), reach beyond them",
            )
        self.buckets, self.reach, self.both_ways = buckets, reach, both_ways
        self.table = nn.Embedding(buckets, heads)

    def require(self, heads: int, head_dim: int) -> None:
        """Refuse another number of heads."""
        del head_dim
        if self.table.embedding_dim != heads:
            raise InputError(
                "adding T5's bias",
                f"a table of {self.table.embedding_dim} heads and q of {heads}",
                f"make T5Bias({heads})",
            )

    def bias(self, q: Query, queries: Places, keys: Places) -> Bias:
        """Return the number of each pair's bucket, (batch or 1, heads, queries, keys)."""
        self.require(q.shape[1], q.shape[-1])
        distance = whole_distances(queries, keys)[:, 0].to(self.table.weight.device)
        bucket = t5_buckets(distance, self.buckets, self.reach, both_ways=self.both_ways)
        values: Tensor = self.table(bucket)  # batch queries keys heads
        return values.permute(0, 3, 1, 2).to(q.dtype)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return f"buckets={self.buckets}, reach={self.reach}, both_ways={self.both_ways}"


def t5_buckets(
    distance: Int[Tensor, "*pairs"], buckets: int = 32, reach: int = 128, *, both_ways: bool = True
) -> Int[Tensor, "*pairs"]:
    """Return the bucket of each distance key - query.

    With n buckets a direction and e = n // 2: bucket d for d < e, else
    min(e + ⌊log(d / e) / log(reach / e) · (n - e)⌋, n - 1).

    Example:
        >>> t5_buckets(torch.tensor([0, -1, -9, -500, 1])).tolist()
        [0, 1, 8, 15, 17]
    """
    start = torch.zeros_like(distance)
    if both_ways:
        buckets //= 2
        start = (distance > 0).to(distance.dtype) * buckets
        distance = distance.abs()
    else:
        distance = (-distance).clamp_min(0)
    exact = buckets // 2
    far = torch.log(distance.float() / exact) / math.log(reach / exact) * (buckets - exact)
    far = (exact + far.clamp_min(0).to(distance.dtype)).clamp_max(buckets - 1)
    return start + torch.where(distance < exact, distance, far)
