"""Masks as small objects: each says who may attend to whom, True = may attend.

A mask is asked with the places of queries and keys in their sequence, counted from 0. With a cache
the queries start where the cache ends, so that one rule serves the full pass and each step of
decoding. `&` keeps what both allow, `|` what either allows.

What is the same for every input (causal, window) goes to the constructor of
`MultiheadAttention`; what belongs to one batch (padding, documents) to its `forward`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnscope.errors import InputError

__all__ = ["Causal", "Documents", "Mask", "Padding", "Places", "Prefix", "Visible", "Window"]

Places: TypeAlias = Int[Tensor, " places"]
"""Places in a sequence, counted from 0."""

Visible: TypeAlias = Bool[Tensor, "#batch #heads #queries #keys"]
"""True = may attend."""


class Mask:
    """Who may attend to whom; the base of all masks.

    reach: how many keys, its own included, a query looks back at most; None: no limit. A cache
    need not keep more than that.
    """

    reach: int | None = None

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return who may attend: True = may, broadcastable to (batch, heads, queries, keys).

        Args:
            queries: their places in the sequence.
            keys: the same for the keys.
        """
        raise NotImplementedError

    def __and__(self, other: Mask) -> Mask:
        """Return the mask that shows what both show."""
        return _Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        """Return the mask that shows what either shows."""
        return _Either(self, other)


@dataclass(frozen=True)
class Causal(Mask):
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

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where the key is not later than the query."""
        edge = queries
        if self.alignment == "bottom-right":
            edge = queries + (keys[-1:] - queries[-1:])
        return (keys <= edge[:, None])[None, None]


@dataclass(frozen=True)
class Window(Mask):
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
        if self.size < 1:
            raise InputError(
                "making a window",
                f"size={self.size}",
                "give the number of keys that a query sees, its own included: 1 or more",
            )

    @property
    def reach(self) -> int:  # type: ignore[override]  # a mask without a window has a constant
        """How many keys a query looks back, its own included."""
        return self.size

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where key and query are less than `size` places apart."""
        return ((keys - queries[:, None]).abs() < self.size)[None, None]


@dataclass(frozen=True)
class Prefix(Mask):
    """Every query sees the first `length` keys: `Causal() | Prefix(n)` is a prefix-LM.

    length: a number, or one per sample (batch,). Source: Raffel et al. 2020 (T5), section 3.2.1.

    Example:
        >>> (Causal() | Prefix(2)).visible(torch.arange(3), torch.arange(3)).int()
        tensor([[[[1, 1, 0],
                  [1, 1, 0],
                  [1, 1, 1]]]], dtype=torch.int32)
    """

    length: int | Int[Tensor, " batch"]

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where the key is one of the first."""
        length = torch.as_tensor(self.length, device=keys.device).reshape(-1, 1, 1, 1)
        return (keys < length).expand(-1, -1, queries.shape[0], -1)


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
        tokens = self.real.dtype == torch.bool and self.real.dim() == 2
        if not tokens and (self.real.dim() != 1 or _is_no_number(self.real)):
            raise InputError(
                "making a padding mask",
                f"a tensor {tuple(self.real.shape)} of {self.real.dtype}",
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
            if ids.dim() != 2 or _is_no_number(ids):
                raise InputError(
                    "making a mask of documents",
                    f"ids {tuple(ids.shape)} of {ids.dtype}",
                    "give whole numbers (batch, tokens), the same number for one document",
                )

    def visible(self, queries: Places, keys: Places) -> Visible:
        """Return True where query and key belong to one document."""
        own = at_places(self.ids, queries, "the ids of documents")
        others = at_places(self.ids if self.keys is None else self.keys, keys, "the ids of keys")
        return (own[:, :, None] == others[:, None, :])[:, None]


@dataclass(frozen=True)
class _Both(Mask):
    left: Mask
    right: Mask

    @property
    def reach(self) -> int | None:  # type: ignore[override]  # a single mask has a constant
        """The nearer of the two."""
        reaches = [mask.reach for mask in (self.left, self.right) if mask.reach is not None]
        return min(reaches, default=None)

    def visible(self, queries: Places, keys: Places) -> Visible:
        return self.left.visible(queries, keys) & self.right.visible(queries, keys)


@dataclass(frozen=True)
class _Either(Mask):
    left: Mask
    right: Mask

    @property
    def reach(self) -> int | None:  # type: ignore[override]  # a single mask has a constant
        """The farther of the two."""
        if self.left.reach is None or self.right.reach is None:
            return None
        return max(self.left.reach, self.right.reach)

    def visible(self, queries: Places, keys: Places) -> Visible:
        return self.left.visible(queries, keys) | self.right.visible(queries, keys)


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


def _is_no_number(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex()
