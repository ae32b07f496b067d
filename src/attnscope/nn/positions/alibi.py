"""ALiBi: the farther a key, the lower its score, at a slope of each head's own."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from attnscope.axes import Bias, Query
from attnscope.nn.positions.protocol import Places, Positions, distances

__all__ = ["ALiBi", "alibi_slopes"]


class ALiBi(Positions):
    """Adds -slope · |query - key| to the scores, with a slope for each head.

    To keys after the query it does the same, which a causal mask hides. Source: Press et al. 2021,
    section 3. Others: `alibi_slopes` of flash-attn; BLOOM adds slope · key, which differs by one
    number per row and gives the same weights.

    Example:
        >>> ALiBi().bias(torch.zeros(1, 2, 1, 4), torch.tensor([2]), torch.arange(3))
        tensor([[[[-0.1250, -0.0625,  0.0000]],
        <BLANKLINE>
                 [[-0.0078, -0.0039,  0.0000]]]])
    """

    def bias(self, q: Query, queries: Places, keys: Places) -> Bias:
        """Return -slope · |query - key|, (batch or 1, heads, queries, keys)."""
        slopes = alibi_slopes(q.shape[1]).to(q.device)[None, :, None, None]
        # 0 - …, so that the distance 0 gives 0 and not -0
        return (0 - slopes * distances(queries, keys).abs().to(q.device)).to(q.dtype)


def alibi_slopes(heads: int) -> Float[Tensor, " heads"]:
    """Return one slope per head, in float64.

    2^(-8i / n) for i = 1 … n where n is a power of two; else those of the power below, and every
    other one of the power above. Source: Press et al. 2021, section 3 and their code.

    Example:
        >>> alibi_slopes(3).tolist()
        [0.0625, 0.00390625, 0.25]
    """
    below = 2 ** int(math.log2(heads))
    slopes = _geometric(below)
    if below < heads:
        slopes = torch.cat([slopes, _geometric(2 * below)[0::2][: heads - below]])
    return slopes


def _geometric(heads: int) -> Float[Tensor, " heads"]:
    return 2.0 ** (-8 * torch.arange(1, heads + 1, dtype=torch.float64) / heads)
