"""Sequences of different lengths in one batch: which tokens are real, and where they stand.

Padding may stand left or right, or between a prompt and what was generated after it. A real token's
position counts the real tokens before it, so that a sequence is the same wherever its padding is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.masks import Mask, Padding, Visible

__all__ = [
    "Itself",
    "PerSample",
    "Real",
    "attendable",
    "check_real",
    "last_real",
    "positions_of",
    "seeing_of",
]

Real: TypeAlias = Bool[Tensor, "batch _"]
"""(batch, tokens), True = a real token; a tokenizer's attention_mask (1/0), made boolean."""

PerSample: TypeAlias = Int[Tensor, "batch"]
"""One number for each sample."""


@dataclass(frozen=True)
class Itself(Mask):
    """Every query sees its own token.

    Joined to a padding mask with ``|`` it leaves no row empty: padding that stands before all real
    tokens would see nothing, and give NaN that then spreads.

    Example:
        >>> Itself().visible(torch.arange(2), torch.arange(2)).int()
        tensor([[[[1, 0],
                  [0, 1]]]], dtype=torch.int32)
    """

    def visible(self, queries: Int[Tensor, " queries"], keys: Int[Tensor, " keys"]) -> Visible:
        """Return True where key and query are one token."""
        return (keys == queries[:, None])[None, None]


def attendable(real: Real) -> Mask:
    """Return the mask of self-attention where `real` tells padding apart: real keys and oneself."""
    return Padding(real) | Itself()


def positions_of(real: Real) -> Int[Tensor, "batch tokens"]:
    """Return for each token how many real ones stand before it.

    Example:
        >>> positions_of(torch.tensor([[False, True, True], [True, True, False]]))
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    return (real.cumsum(-1) - 1).clamp_min(0)


def seeing_of(ids: Tensor, real: Real | None, before: int) -> tuple[Tensor, dict[str, Any]]:
    """Return the positions of tokens, and what self-attention is told where some are padding.

    Args:
        ids: the tokens of this forward (batch, tokens).
        real: of all tokens so far; None: all are real.
        before: tokens in the cache.

    Raises:
        InputError: as `check_real`.
    """
    if real is None:
        return torch.arange(before, before + ids.shape[1], device=ids.device)[None], {}
    check_real(real, ids, before)
    positions = positions_of(real)[:, before:]
    return positions, {"mask": attendable(real), "positions": positions}


def last_real(real: Real) -> PerSample:
    """Return the index of the last real token of each sample; 0 where there is none.

    Example:
        >>> last_real(torch.tensor([[False, True, True], [True, False, False]]))
        tensor([2, 0])
    """
    places = torch.arange(real.shape[-1], device=real.device)
    return (places * real).amax(-1)


def check_real(real: Tensor, ids: Tensor, before: int = 0) -> None:
    """Refuse a padding mask that is not boolean, or not of all tokens so far.

    Raises:
        InputError: another type or shape; the message names the convention that was found.
    """
    wanted = (ids.shape[0], before + ids.shape[1])
    if real.dtype == torch.bool and tuple(real.shape) == wanted:
        return
    kind = "1/0 numbers" if real.dtype != torch.bool else "booleans"
    raise InputError(
        doing="reading which tokens are real",
        found=f"{kind} ({real.dtype}) of shape {tuple(real.shape)}",
        todo=f"give booleans of shape {wanted}, True = real: attention_mask.bool() of a tokenizer"
        + (f", for the {before} tokens in the cache too" if before else ""),
    )
