"""Masks that count tokens: causal, window, prefix.

They are asked with places, or with how many real tokens stand before each place: a rule is written
once for both, on (batch or 1, queries) and (batch or 1, keys).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn.kinds import described, is_count, is_whole
from attnscope.nn.masks.protocol import Both, Counted, Either, Mask, Places, Visible

__all__ = ["Causal", "Prefix", "Window", "is_causal"]

Numbers: TypeAlias = Int[Tensor, "#batch tokens"]


class _Counting(Mask):
    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return who may attend, by places."""
        return self._seen(queries[None], keys[None])[:, None]

    def among(self, queries: Places, keys: Places, counted: Counted) -> Visible:
        """Return who may attend, by how many real tokens stand before each place."""
        counted = counted.to(queries.device)
        return self._seen(counted[:, queries], counted[:, keys])[:, None]

    def _seen(self, queries: Numbers, keys: Numbers) -> Visible:
        raise NotImplementedError


@dataclass(frozen=True)
class Causal(_Counting):
    """No query sees a later key.

    "top-left": key <= query, by their places; "bottom-right": the last query sees the last key, so
    that key <= query + keys - queries. The two agree where there are as many keys as queries, and
    in decoding with a cache. Source: Vaswani et al. 2017, section 3.2.3. Others: `is_causal` of
    `F.scaled_dot_product_attention` is top-left; `causal=True` of flash-attn is bottom-right.

    Example:
        >>> place = torch.arange(3)
        >>> Causal().visible(place, place).int()
        tensor([[[[1, 0, 0],
                  [1, 1, 0],
                  [1, 1, 1]]]], dtype=torch.int32)
    """

    alignment: Literal["top-left", "bottom-right"] = "top-left"

    def __post_init__(self) -> None:
        """Refuse a corner that doesn't exist."""
        if self.alignment not in {"top-left", "bottom-right"}:
            raise InputError(
                "making a causal mask",
                f"alignment={self.alignment!r}",
                'use "top-left" (key <= query) or "bottom-right" (the last query sees all keys)',
            )

    def _seen(self, queries: Numbers, keys: Numbers) -> Visible:
        edge = queries
        if self.alignment == "bottom-right":
            edge = queries + (keys[:, -1:] - queries[:, -1:])
        return keys[:, None, :] <= edge[:, :, None]


@dataclass(frozen=True)
class Window(_Counting):
    """A query sees keys less than `size` places before it, and as many after it.

    |query - key| < size; with `& Causal()` these are `size` keys, its own included. Source: Beltagy
    et al. 2020 (Longformer), section 3.1; Jiang et al. 2023 (Mistral). Others: `sliding_window`
    of Hugging Face means the same number; `window_size=(size - 1, 0)` of flash-attn.

    Example:
        >>> (Causal() & Window(2)).visible(torch.arange(3), torch.arange(3)).int()
        tensor([[[[1, 0, 0],
                  [1, 1, 0],
                  [0, 1, 1]]]], dtype=torch.int32)
    """

    size: int

    def __post_init__(self) -> None:
        """Refuse a window that shows nothing."""
        if not is_count(self.size):
            raise InputError(
                "making a window",
                f"size={self.size!r}",
                "give the number of keys that a query sees, its own included: 1 or more",
            )

    @property
    def reach(self) -> int:  # type: ignore[override]  # a mask without a window has a constant
        """How many keys a query looks back, its own included."""
        return self.size

    def _seen(self, queries: Numbers, keys: Numbers) -> Visible:
        return (keys[:, None, :] - queries[:, :, None]).abs() < self.size


@dataclass(frozen=True)
class Prefix(_Counting):
    """Every query sees the first `length` keys: `Causal() | Prefix(n)` is a prefix-LM.

    length: a number, or one per sample (batch,). Source: Raffel et al. 2020 (T5), section 3.2.1.

    Example:
        >>> (Causal() | Prefix(2)).visible(torch.arange(3), torch.arange(3)).int()
        tensor([[[[1, 1, 0],
                  [1, 1, 0],
                  [1, 1, 1]]]], dtype=torch.int32)
    """

    length: int | Int[Tensor, " batch"]

    def __post_init__(self) -> None:
        """Refuse what is no number of tokens."""
        length = self.length
        whole = is_count(length, 0) or is_whole(length, 0) or is_whole(length, 1)
        if whole and bool((torch.as_tensor(length) >= 0).all()):
            return
        raise InputError(
            "making a prefix",
            described(length),
            "give the number of keys that all see, 0 or more, or one for each sample (batch,)",
        )

    def _seen(self, queries: Numbers, keys: Numbers) -> Visible:
        length = torch.as_tensor(self.length, device=keys.device).reshape(-1, 1, 1)
        return (keys[:, None, :] < length).expand(-1, queries.shape[1], -1)


def is_causal(mask: Mask) -> bool:
    """Return whether a mask can show no later key, as is plain from what it was joined of."""
    if isinstance(mask, Both):
        return is_causal(mask.left) or is_causal(mask.right)
    if isinstance(mask, Either):
        return is_causal(mask.left) and is_causal(mask.right)
    return isinstance(mask, Causal)
