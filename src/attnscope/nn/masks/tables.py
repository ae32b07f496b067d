"""Masks that look tokens up in a table of one batch: padding, and documents packed together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.kinds import described, is_whole
from attnscope.nn.masks.protocol import Mask, Places, Visible

__all__ = ["Documents", "Padding"]


@dataclass(frozen=True)
class Padding(Mask):
    """Keys that are padding are seen by nobody.

    real: (batch, keys) with True = a real token (a tokenizer's `attention_mask`, made boolean), or
    (batch,) whole numbers: how many tokens of each sample are real, padding after them. Others:
    `key_padding_mask` of `torch.nn.MultiheadAttention` is the opposite: True = padding.

    Example:
        >>> Padding(torch.tensor([2, 3])).visible(torch.arange(1), torch.arange(3)).int()
        tensor([[[[1, 1, 0]]],
        <BLANKLINE>
        <BLANKLINE>
                [[[1, 1, 1]]]], dtype=torch.int32)
    """

    real: Bool[Tensor, "batch keys"] | Int[Tensor, " batch"]

    def __post_init__(self) -> None:
        """Refuse what is neither a boolean mask nor lengths."""
        real: Any = self.real
        tokens = isinstance(real, Tensor) and real.dtype == torch.bool and real.dim() == 2
        if not tokens and not is_whole(real, 1):
            raise InputError(
                "making a padding mask",
                described(real),
                "give booleans (batch, keys), True = real token, or lengths (batch,)",
            )

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where the key is a real token."""
        if self.real.dim() == 1:
            real = keys < self.real[:, None].to(keys.device)
        else:
            real = at_places(self.real, keys, "the padding mask")
        return real[:, None, None, :].expand(-1, -1, queries.shape[0], -1)


@dataclass(frozen=True)
class Documents(Mask):
    """Tokens see those of their own document only, where several are packed into one sequence.

    ids: (batch, tokens) a number per token; keys: the same for the keys where they are another
    sequence. Source: Krell et al. 2021 (packing without cross-contamination). Others:
    `document_id` in FlexAttention's examples, `cu_seqlens` of flash-attn.

    Example:
        >>> Documents(torch.tensor([[0, 0, 1]])).visible(torch.arange(3), torch.arange(3)).int()
        tensor([[[[1, 1, 0],
                  [1, 1, 0],
                  [0, 0, 1]]]], dtype=torch.int32)
    """

    ids: Int[Tensor, "batch tokens"]
    keys: Int[Tensor, "batch keys"] | None = None

    def __post_init__(self) -> None:
        """Refuse ids that are not one whole number per token."""
        for ids in (self.ids, self.ids if self.keys is None else self.keys):
            if not is_whole(ids, 2):
                raise InputError(
                    "making a mask of documents",
                    f"ids: {described(ids)}",
                    "give whole numbers (batch, tokens), the same number for one document",
                )

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where query and key belong to one document."""
        own = at_places(self.ids, queries, "the ids of documents")
        others = at_places(self.ids if self.keys is None else self.keys, keys, "the ids of keys")
        return (own[:, :, None] == others[:, None, :])[:, None]


def at_places(table: Tensor, places: Places, name: str) -> Tensor:
    """Return the columns (batch, places) of a table (batch, tokens).

    Raises:
        InputError: the table ends before the last place.
    """
    if not torch.compiler.is_compiling() and places.shape[0] and places[-1] >= table.shape[1]:
        raise InputError(
            "masking the keys",
            f"{name} has {table.shape[1]} tokens, and place {int(places[-1])} was asked for",
            "give it for all tokens so far, those in the cache included",
        )
    return table.to(places.device)[:, places]
