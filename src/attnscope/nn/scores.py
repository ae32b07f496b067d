"""What happens to scores on their way to weights: a soft cap, and sinks that take a share.

The order is that of `attnscope.Recipe`: scale, soft cap, bias, mask, sinks, softmax.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnscope.axes import Scores, Weights
from attnscope.errors import InputError
from attnscope.nn.kinds import is_count, is_number

__all__ = ["Sinks", "Softcap", "ZeroSink", "normalise"]


class Softcap(nn.Module):
    """Keeps scores between -cap and cap: cap · tanh(scores / cap), before bias and mask.

    Source: Gemma 2 (2024), section 2. Others: `attn_logit_softcapping` in Hugging Face,
    `softcap` in flash-attn.

    Example:
        >>> Softcap(50.0)(torch.tensor([0.0, 1000.0]))
        tensor([ 0., 50.])
    """

    def __init__(self, cap: float) -> None:
        super().__init__()
        if not is_number(cap) or cap <= 0:
            raise InputError("making a soft cap", f"cap={cap!r}", "give a positive number")
        self.cap = cap

    def forward(self, scores: Scores) -> Scores:
        """Return the capped scores."""
        return self.cap * torch.tanh(scores / self.cap)

    def extra_repr(self) -> str:
        """Return the cap."""
        return f"{self.cap}"


class Sinks(nn.Module):
    """Learned scores of columns that belong to no key: they take their share of each row.

    weights = softmax([scores, sinks]) without the last columns, so that a row sums to less than 1.
    Source: GPT-OSS (2025), `sinks`; Xiao et al. 2023 (attention sinks), section 3.3.

    Args:
        heads: number of heads, each with its own.
        count: sinks per head.
        start: their first value.

    Example:
        >>> Sinks(4).logits.shape
        torch.Size([4, 1])
    """

    def __init__(self, heads: int, count: int = 1, start: float = 0.0) -> None:
        super().__init__()
        if not is_count(heads) or not is_count(count) or not is_number(start):
            raise InputError(
                "making sinks",
                f"heads={heads!r}, count={count!r}, start={start!r}",
                "give whole numbers of heads and sinks, 1 or more, and a number to start from",
            )
        self.logits = nn.Parameter(torch.full((heads, count), float(start)))

    def require(self, heads: int) -> None:
        """Refuse another number of heads.

        Raises:
            InputError: sinks of other heads.
        """
        if self.logits.shape[0] != heads:
            raise InputError(
                "adding sinks to the scores",
                f"sinks of {self.logits.shape[0]} heads and scores of {heads}",
                f"make Sinks({heads})",
            )

    def forward(self, scores: Scores) -> Float[Tensor, "1 heads 1 sinks"]:
        """Return the columns that stand beside the scores."""
        self.require(scores.shape[1])
        return self.logits[None, :, None, :]


class ZeroSink(nn.Module):
    """One sink of score 0 that is not learned: softmax-off-by-one, exp(s) / (1 + Σ exp(s)).

    Source: Miller 2023, "Attention is off by one". Others: `add_zero_attn` of
    `torch.nn.MultiheadAttention` is the same arithmetic, with a column of weights for it.

    Example:
        >>> tuple(ZeroSink()(torch.zeros(2, 4, 3, 3)).shape)
        (1, 1, 1, 1)
    """

    def forward(self, scores: Scores) -> Float[Tensor, "1 1 1 1"]:
        """Return the column that stands beside the scores."""
        return scores.new_zeros(1, 1, 1, 1)


def normalise(scores: Scores, sinks: nn.Module | None) -> Weights:
    """Return the weights: softmax over the keys, and over the sinks, whose share is dropped."""
    if sinks is None:
        return scores.softmax(-1)
    columns = sinks(scores).to(scores.dtype).expand(*scores.shape[:-1], -1)
    return torch.cat([scores, columns], -1).softmax(-1)[..., : scores.shape[-1]]
