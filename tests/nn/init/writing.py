"""Attention as people write it, with projections that are found in different ways."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Separate(nn.Module):
    """Three linear layers, scores and weights by hand."""

    def __init__(self, width: int, heads: int, factor: float = 1.0) -> None:
        super().__init__()
        self.heads, self.factor = heads, factor
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.to_out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens (batch, length, width)."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (to(x).view(shape).transpose(1, 2) for to in (self.to_q, self.to_k, self.to_v))
        scores = self.factor * q @ k.transpose(-2, -1) / math.sqrt(shape[-1])
        context = scores.softmax(-1) @ v
        result: Tensor = self.to_out(context.transpose(1, 2).reshape(batch, length, width))
        return result


class ByTurns(nn.Module):
    """One linear layer in which each head has its q, k and v side by side."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.last = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens (batch, length, width)."""
        batch, length, width = x.shape
        mixed = self.mix(x).view(batch, length, self.heads, 3, width // self.heads)
        q, k, v = mixed.permute(3, 0, 2, 1, 4)
        context = nn.functional.scaled_dot_product_attention(q, k, v)
        result: Tensor = self.last(context.transpose(1, 2).flatten(2))
        return result


class Bare(nn.Module):
    """Parameters without layers, one per head, multiplied by einsum."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        head_dim = width // heads
        self.W_Q, self.W_K, self.W_V = (
            nn.Parameter(torch.randn(heads, width, head_dim) * 0.02) for _ in range(3)
        )
        self.W_O = nn.Parameter(torch.randn(heads, head_dim, width) * 0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens (batch, length, width)."""
        q, k, v = (torch.einsum("ble,hed->bhld", x, w) for w in (self.W_Q, self.W_K, self.W_V))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        context = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        return torch.einsum("bhid,hde->bie", context, self.W_O)


class Turned(nn.Module):
    """Weights used through a view, ``x @ weight.T``, so that no record names them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens (batch, length, width)."""
        mixed = (x @ self.qkv.weight.T + self.qkv.bias).unflatten(-1, (3, self.heads, -1))
        q, k, v = mixed.permute(2, 0, 3, 1, 4)
        context = nn.functional.scaled_dot_product_attention(q, k, v)
        return context.transpose(1, 2).flatten(2) @ self.proj.weight.T


class Sigmoid(Separate):
    """Weights that are no distribution."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens (batch, length, width)."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (to(x).view(shape).transpose(1, 2) for to in (self.to_q, self.to_k, self.to_v))
        weights = (q @ k.transpose(-2, -1) / math.sqrt(shape[-1]) - math.log(length)).sigmoid()
        context = weights @ v
        result: Tensor = self.to_out(context.transpose(1, 2).reshape(batch, length, width))
        return result


class Nameless(nn.Module):
    """Weights behind a function of one's own, under names that say nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.randn(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the output for tokens (batch, length, width)."""
        q, k, v, o = (part.T.contiguous() for part in self.a.chunk(4))
        q, k, v = (x @ part for part in (q, k, v))
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v @ o
