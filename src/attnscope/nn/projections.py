"""How q, k and v come from the inputs: which weights there are, and which are shared.

Without a part, `MultiheadAttention` has the parameters of `torch.nn.MultiheadAttention` under its
names: one packed `in_proj_weight` (rows of q, then k, then v), or `q_proj_weight`, `k_proj_weight`
and `v_proj_weight` where keys or values have another width. A part replaces them by a module of
its own, called `projections`. All map (tokens, batch, width) to (tokens, batch, heads · head_dim).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.errors import InputError

__all__ = [
    "Fused",
    "Projections",
    "Separate",
    "SharedKeyValue",
    "SharedQueryKey",
    "Widths",
    "project_packed",
    "project_separately",
]

Tokens: TypeAlias = Float[Tensor, "tokens batch width"]
Projected: TypeAlias = tuple[Tokens, Tokens, Tokens]


@dataclass(frozen=True, slots=True)
class Widths:
    """The sizes of one attention.

    embed, keys, values: widths of the three inputs; heads, kv_heads: how many there are of q, and
    of k and v; head_dim: width of one head; bias: whether the projections add one. device, dtype:
    of their parameters.
    """

    embed: int
    keys: int
    values: int
    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = True
    device: torch.device | str | None = None
    dtype: torch.dtype | None = None

    @property
    def q(self) -> int:
        """Width of q, all heads side by side."""
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        """Width of k and of v, all kv heads side by side."""
        return self.kv_heads * self.head_dim

    @property
    def same(self) -> bool:
        """Whether the three inputs have one width."""
        return self.embed == self.keys == self.values

    def linear(self, inputs: int, outputs: int) -> nn.Linear:
        """Return a layer of these widths, with a bias where the projections have one."""
        return nn.Linear(inputs, outputs, self.bias, self.device, self.dtype)


class Projections(Protocol):
    """What `projections=` takes: it makes the module that projects."""

    def build(self, widths: Widths) -> nn.Module:
        """Return a module of (query, key, value) that returns q, k, v, its weights not yet set."""
        ...


@dataclass(frozen=True, slots=True)
class Separate:
    """One `nn.Linear` each: `projections.q`, `.k`, `.v`.

    q = query·W_qᵀ + b_q, and so on; weights (out, in). Source: Vaswani et al. 2017, section 3.2.2.
    Others: `q_proj`, `k_proj`, `v_proj` in Hugging Face.

    Example:
        >>> sorted(dict(Separate().build(Widths(8, 8, 8, 2, 1, 4)).named_parameters()))
        ['k.bias', 'k.weight', 'q.bias', 'q.weight', 'v.bias', 'v.weight']
    """

    def build(self, widths: Widths) -> nn.Module:
        """Return the three layers."""
        return _Separate(widths)


@dataclass(frozen=True, slots=True)
class Fused:
    """One `nn.Linear` for all three, `projections.qkv`: rows of q, then of k, then of v.

    Others: `c_attn` of GPT-2, `qkv` of timm, `Wqkv` of MPT.

    Example:
        >>> tuple(Fused().build(Widths(8, 8, 8, 2, 1, 4)).qkv.weight.shape)
        (16, 8)
    """

    def build(self, widths: Widths) -> nn.Module:
        """Return the one layer.

        Raises:
            InputError: the inputs differ in width.
        """
        if not widths.same:
            raise _unequal("one fused projection", widths)
        return _Fused(widths)


@dataclass(frozen=True, slots=True)
class SharedKeyValue:
    """One projection of `key` is both k and v: `projections.q`, `.kv`.

    k = v = key·W_kvᵀ + b_kv; rotary embedding and norm act on k alone. `value` is not used. Source:
    He & Hofmann 2023 (simplified blocks) ask what v is needed for; Shazeer 2019 shares the heads.

    Example:
        >>> sorted(dict(SharedKeyValue().build(Widths(8, 8, 8, 2, 2, 4)).named_parameters()))
        ['kv.bias', 'kv.weight', 'q.bias', 'q.weight']
    """

    def build(self, widths: Widths) -> nn.Module:
        """Return the two layers.

        Raises:
            InputError: keys and values differ in width.
        """
        if widths.keys != widths.values:
            raise _unequal("k = v", widths)
        return _SharedKeyValue(widths)


@dataclass(frozen=True, slots=True)
class SharedQueryKey:
    """One projection makes q of `query` and k of `key`: `projections.qk`, `.v`.

    q = query·W_qkᵀ + b_qk, k = key·W_qkᵀ + b_qk. Source: Kitaev et al. 2020 (Reformer), section 2,
    "shared-QK attention" (which also normalises k).

    Example:
        >>> sorted(dict(SharedQueryKey().build(Widths(8, 8, 8, 2, 2, 4)).named_parameters()))
        ['qk.bias', 'qk.weight', 'v.bias', 'v.weight']
    """

    def build(self, widths: Widths) -> nn.Module:
        """Return the two layers.

        Raises:
            InputError: queries and keys differ in width or in heads.
        """
        if widths.embed != widths.keys:
            raise _unequal("q and k of one weight", widths)
        if widths.heads != widths.kv_heads:
            raise InputError(
                "making q and k of one weight",
                f"{widths.heads} heads and {widths.kv_heads} kv heads",
                "leave kv_heads out, or use Separate()",
            )
        return _SharedQueryKey(widths)


class _Separate(nn.Module):
    def __init__(self, widths: Widths) -> None:
        super().__init__()
        self.q = widths.linear(widths.embed, widths.q)
        self.k = widths.linear(widths.keys, widths.kv)
        self.v = widths.linear(widths.values, widths.kv)

    def forward(self, query: Tokens, key: Tokens, value: Tokens) -> Projected:
        return self.q(query), self.k(key), self.v(value)


class _Fused(nn.Module):
    def __init__(self, widths: Widths) -> None:
        super().__init__()
        self.widths = widths
        self.qkv = widths.linear(widths.embed, widths.q + 2 * widths.kv)

    def forward(self, query: Tokens, key: Tokens, value: Tokens) -> Projected:
        return project_packed(query, key, value, self.qkv.weight, self.qkv.bias, self.widths)


class _SharedKeyValue(nn.Module):
    def __init__(self, widths: Widths) -> None:
        super().__init__()
        self.q = widths.linear(widths.embed, widths.q)
        self.kv = widths.linear(widths.keys, widths.kv)

    def forward(self, query: Tokens, key: Tokens, value: Tokens) -> Projected:
        del value
        kv = self.kv(key)
        return self.q(query), kv, kv


class _SharedQueryKey(nn.Module):
    def __init__(self, widths: Widths) -> None:
        super().__init__()
        self.qk = widths.linear(widths.embed, widths.q)
        self.v = widths.linear(widths.values, widths.kv)

    def forward(self, query: Tokens, key: Tokens, value: Tokens) -> Projected:
        return self.qk(query), self.qk(key), self.v(value)


def project_packed(
    query: Tokens, key: Tokens, value: Tokens, weight: Tensor, bias: Tensor | None, widths: Widths
) -> Projected:
    """Project with one weight (q + 2 · kv, embed), in one product where the inputs are the same."""
    rows = [widths.q, widths.kv, widths.kv]
    if rows == [widths.embed] * 3:  # torch's own sizes: its own function gives its very bits
        q, k, v = F._in_projection_packed(  # type: ignore[attr-defined]  # noqa: SLF001
            query, key, value, weight, bias
        )
        return q, k, v
    if query is key and key is value:
        q, k, v = F.linear(query, weight, bias).split(rows, -1)
        return q, k, v
    biases = (None,) * 3 if bias is None else bias.split(rows)
    q, k, v = (
        F.linear(x, w, b)
        for x, w, b in zip((query, key, value), weight.split(rows), biases, strict=True)
    )
    return q, k, v


def project_separately(
    query: Tokens,
    key: Tokens,
    value: Tokens,
    weights: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
    widths: Widths,
) -> Projected:
    """Project with a weight each, and one bias for all: q's part of it, then k's, then v's."""
    biases = (None,) * 3 if bias is None else bias.split([widths.q, widths.kv, widths.kv])
    q, k, v = (
        F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
    )
    return q, k, v


def _unequal(what: str, widths: Widths) -> InputError:
    return InputError(
        f"making {what}",
        f"inputs of width {widths.embed} (query), {widths.keys} (key), {widths.values} (value)",
        "leave kdim and vdim out, or use Separate()",
    )
