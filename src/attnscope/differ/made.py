"""Inputs for plain functions of (q, k, v, …), sizes different so that axes can be told apart."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["qkv"]


def qkv(
    seed: int,
    *,
    batch: int = 2,
    heads: int = 3,
    queries: int = 7,
    keys: int = 7,
    head_dim: int = 8,
    value_dim: int = 8,
    kv_heads: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return random q, k and v in the canonical layout, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    kv_heads = heads if kv_heads is None else kv_heads
    shapes = (
        (batch, heads, queries, head_dim),
        (batch, kv_heads, keys, head_dim),
        (batch, kv_heads, keys, value_dim),
    )
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    return q, k, v
