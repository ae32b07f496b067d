"""Stands for xformers.ops: its one attention and some of its biases, in plain PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class AttentionBias:
    """A bias that can write itself out."""

    def materialize(
        self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        raise NotImplementedError


class LowerTriangularMask(AttentionBias):
    """Causal, from the top-left corner."""

    def materialize(
        self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        return torch.full(shape, -math.inf, dtype=dtype, device=device).triu(1)


class LowerTriangularFromBottomRightMask(AttentionBias):
    """Causal, from the bottom-right corner."""

    def materialize(
        self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        full = torch.full(shape, -math.inf, dtype=dtype, device=device)
        return full.triu(1 + shape[-1] - shape[-2])


class BlockDiagonalMask(AttentionBias):
    """Packed sequences that don't see each other."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def materialize(
        self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: Any = "cpu"
    ) -> Tensor:
        values = torch.full(shape[-2:], -math.inf, dtype=dtype, device=device)
        start = 0
        for length in self.lengths:
            values[start : start + length, start : start + length] = 0.0
            start += length
        return values.expand(shape)


def memory_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | AttentionBias | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    del p, op, output_dtype
    letters = {3: "", 4: "h", 5: "gh"}[query.dim()]
    scores = torch.einsum(f"bq{letters}d,bk{letters}d->b{letters}qk", query, key)
    scores = scores * (scale or 1 / math.sqrt(query.shape[-1]))
    if isinstance(attn_bias, AttentionBias):
        scores = scores + attn_bias.materialize(tuple(scores.shape))
    elif attn_bias is not None:
        scores = scores + attn_bias
    return torch.einsum(f"b{letters}qk,bk{letters}d->bq{letters}d", scores.softmax(-1), value)
