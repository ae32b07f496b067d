"""The keys and values that a step of `flash_attn_with_kvcache` met.

The kernel writes new keys into the cache and turns q and the new keys by the rotary angles of their
positions, all inside. What it met is therefore read from the cache after the call, and copied,
since the next step writes to the same memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Cached", "read_cache"]


@dataclass(frozen=True, slots=True, eq=False)
class Cached:
    """What one step met.

    q: (batch, queries, heads, dim), turned. k, v: (batch, keys, kv_heads, dim), up to the longest
    sample. lengths: keys of each sample, (batch,). padding: how many of them are left padding.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    lengths: Tensor
    padding: Tensor


def read_cache(given: Mapping[str, Any], *, turns: bool) -> Cached:
    """Read the cache after the call.

    turns: whether the positions of later queries count on (causal or windowed attention); else all
        queries of a sample stand at the first one's position.
    """
    q = given["q"].detach()
    k, v = (_rows(given[name].detach(), given) for name in ("k_cache", "v_cache"))
    batch, queries = q.shape[:2]
    before = _before(given, batch, k)
    new = 0 if given["k"] is None else given["k"].shape[1]
    lengths = before + new
    longest = int(lengths.max())
    padding = given["cache_leftpad"]
    if given["k"] is not None and given["rotary_cos"] is not None:
        steps = torch.arange(queries, device=q.device) * turns
        q = _turned(q, before[:, None] + steps, given)
    return Cached(
        q=q,
        k=k[:, :longest].clone(),
        v=v[:, :longest].clone(),
        lengths=lengths,
        padding=torch.zeros_like(lengths) if padding is None else padding.long(),
    )


def _rows(cache: Tensor, given: Mapping[str, Any]) -> Tensor:
    """Return the cache of each sample: its pages joined, or its row."""
    pages, rows = given["block_table"], given["cache_batch_idx"]
    if pages is not None:
        return cache[pages.long()].flatten(1, 2)
    return cache if rows is None else cache[rows.long()]


def _before(given: Mapping[str, Any], batch: int, cache: Tensor) -> Tensor:
    """Return how many keys each sample had before the call."""
    lengths = given["cache_seqlens"]
    if isinstance(lengths, Tensor):
        return lengths.detach().long().clone()
    full = cache.shape[1] if lengths is None else lengths
    return torch.full((batch,), full, device=cache.device)


def _turned(x: Tensor, positions: Tensor, given: Mapping[str, Any]) -> Tensor:
    """Turn the first dimensions of x (batch, tokens, heads, dim) by the angles of `positions`."""
    cos, sin = (given[name][positions][:, :, None] for name in ("rotary_cos", "rotary_sin"))
    width = 2 * cos.shape[-1]
    turned, rest = x[..., :width].float(), x[..., width:]
    if given["rotary_interleaved"]:
        pairs = turned.unflatten(-1, (-1, 2))
        one, two = pairs[..., 0], pairs[..., 1]
    else:
        one, two = turned.chunk(2, -1)
    first, second = one * cos - two * sin, one * sin + two * cos
    if given["rotary_interleaved"]:
        turned = torch.stack([first, second], -1).flatten(-2)
    else:
        turned = torch.cat([first, second], -1)
    return torch.cat([turned.to(x.dtype), rest], -1)
