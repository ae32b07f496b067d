"""Sequences of different lengths in one batch: which tokens are real, and where they stand.

Padding may stand left or right, or between a prompt and what was generated after it. A real token's
position counts the real tokens before it, so that a sequence is the same wherever its padding is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.embeddings import check_ids
from attnscope.nn.kinds import described
from attnscope.nn.masks import Counted, Mask, Padding, Places, Visible

__all__ = [
    "PerSample",
    "Real",
    "RealTokens",
    "check_real",
    "padding_first",
    "positions_of",
    "seeing_of",
]

Real: TypeAlias = Bool[Tensor, "batch _"]
"""(batch, tokens), True = a real token; a tokenizer's attention_mask (1/0), made boolean."""

PerSample: TypeAlias = Int[Tensor, "batch"]
"""One number for each sample."""


@dataclass(frozen=True)
class RealTokens(Mask):
    """Queries see real keys, and their own token; masks beside it count real tokens alone.

    That each sees its own leaves no row empty: padding that stands before all real tokens would
    see nothing, and give NaN that then spreads.

    real: (batch, all tokens so far); counted: `positions_of(real)`.

    Example:
        >>> real = torch.tensor([[False, True]])
        >>> RealTokens(real, positions_of(real)).visible(torch.arange(2), torch.arange(2)).int()
        tensor([[[[1, 1],
                  [0, 1]]]], dtype=torch.int32)
    """

    real: Real
    counted: Counted

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where the key is real, or the query itself."""
        itself = (keys == queries[:, None])[None, None]
        return Padding(self.real).visible(queries, keys) | itself


def positions_of(real: Real) -> Int[Tensor, "batch tokens"]:
    """Return for each token how many real ones stand before it.

    Example:
        >>> positions_of(torch.tensor([[False, True, True], [True, True, False]]))
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    return (real.cumsum(-1) - 1).clamp_min(0)


def seeing_of(
    ids: Tensor, real: Real | None, caches: Sequence[KeyValueCache] | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Return the positions of tokens, and what self-attention is told where some are padding.

    Args:
        ids: the tokens of this forward (batch, tokens).
        real: of all tokens so far; None: all are real.
        caches: of the tokens before these.

    Raises:
        InputError: as `check_ids` and `check_real`; or caches have forgotten what a window shows,
            since padding stands behind real tokens.
    """
    check_ids(ids)
    before = caches[0].length if caches else 0
    if real is None:
        return torch.arange(before, before + ids.shape[1], device=ids.device)[None], {}
    check_real(real, ids, before)
    _check_kept(real, before, caches or ())
    counted = positions_of(real)
    positions = counted[:, before:]
    return positions, {"mask": RealTokens(real, counted), "positions": positions}


def padding_first(ids: Tensor, real: Real) -> tuple[Tensor, Real]:
    """Return the tokens of each sample with its padding on the left, in their order.

    Example:
        >>> padding_first(torch.tensor([[3, 9, 4]]), torch.tensor([[True, False, True]]))
        (tensor([[9, 3, 4]]), tensor([[False,  True,  True]]))
    """
    order = real.int().argsort(dim=-1, stable=True)
    return ids.gather(-1, order), real.gather(-1, order)


def _check_kept(real: Real, before: int, caches: Sequence[KeyValueCache]) -> None:
    """Refuse caches that keep the last tokens alone, where padding is among them."""
    if torch.compiler.is_compiling() or not caches:
        return
    kept = min(cache.kept for cache in caches)
    if kept == before:
        return
    if bool((real[:, :-1] & ~real[:, 1:]).any()):
        raise InputError(
            doing="reading which tokens are real",
            found=f"padding behind real tokens, and caches that keep {kept} of {before} tokens",
            todo="pad on the left, or use caches without a window: KeyValueCache() for each layer",
        )


def check_real(real: Tensor, ids: Tensor, before: int = 0) -> None:
    """Refuse a padding mask that is not boolean, or not of all tokens so far.

    Raises:
        InputError: another type or shape; the message names the convention that was found.
    """
    wanted = (ids.shape[0], before + ids.shape[1])
    if not isinstance(real, Tensor):
        raise InputError(
            doing="reading which tokens are real",
            found=described(real),
            todo=f"give a tensor of booleans, of shape {wanted}, True = real",
        )
    if real.dtype == torch.bool and tuple(real.shape) == wanted:
        return
    kind = "1/0 numbers" if real.dtype != torch.bool else "booleans"
    raise InputError(
        doing="reading which tokens are real",
        found=f"{kind} ({real.dtype}) of shape {tuple(real.shape)}",
        todo=f"give booleans of shape {wanted}, True = real: attention_mask.bool() of a tokenizer"
        + (f", for the {before} tokens in the cache too" if before else ""),
    )
