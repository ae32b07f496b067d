"""Heads split and merged, and keys that belong to no token: where axes change places.

The strides are those that `torch.nn.MultiheadAttention` ends up with, so that products of matrices
round alike.
"""

from __future__ import annotations

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from attnscope.axes import Context, Key, Value, Weights

__all__ = ["Tokens", "for_each_head", "mix", "side_by_side", "split", "tokens_first"]
__all__ += ["with_learned", "with_zeros"]

Tokens: TypeAlias = Float[Tensor, "tokens batch width"]


def tokens_first(
    query: Tensor, key: Tensor, value: Tensor, *, batched: bool, batch_first: bool
) -> tuple[Tokens, Tokens, Tokens]:
    """Return (tokens, batch, width); with a batch, what is one tensor stays one."""
    if not batched:
        return query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
    if not batch_first:
        return query, key, value
    turned_query = query.transpose(1, 0)
    turned_key = turned_query if key is query else key.transpose(1, 0)
    return turned_query, turned_key, turned_key if value is key else value.transpose(1, 0)


def split(x: Tokens, head_dim: int) -> Float[Tensor, "batch heads tokens head_dim"]:
    """Return the heads of (tokens, batch, heads · head_dim), neighbouring features together."""
    heads = x.shape[2] // head_dim
    return x.reshape(*x.shape[:2], heads, head_dim).permute(1, 2, 0, 3)


def for_each_head(x: Key, heads: int) -> Float[Tensor, "batch heads keys head_dim"]:
    """Return kv heads repeated for `heads` heads: 0 0 1 1, not 0 1 0 1."""
    group = heads // x.shape[1]
    return x if group == 1 else x.repeat_interleave(group, 1)


def mix(weights: Weights, v: Value) -> Context:
    """Return weights · v of each head."""
    product = torch.bmm(weights.flatten(0, 1), v.flatten(0, 1))
    return product.view(*weights.shape[:2], *product.shape[1:])


def side_by_side(context: Context) -> Float[Tensor, "rows width"]:
    """Return the heads of each token side by side: (queries · batch, heads · head_dim)."""
    batch, heads, queries, width = context.shape
    return context.permute(2, 0, 1, 3).reshape(queries * batch, heads * width)


def with_learned(x: Key, extra: Float[Tensor, "1 1 width"]) -> Key:
    """Return keys or values with a learned one behind the others."""
    tokens = x.permute(2, 0, 1, 3)  # tokens batch kv_heads head_dim
    one = extra.repeat(1, x.shape[0], 1).unflatten(-1, (x.shape[1], x.shape[3]))
    return torch.cat([tokens, one]).permute(1, 2, 0, 3)


def with_zeros(x: Key) -> Key:
    """Return keys or values with one of zeros behind the others."""
    flat = x.flatten(0, 1)
    longer = torch.cat([flat, flat.new_zeros(flat.shape[0], 1, x.shape[-1])], 1)
    extended: Tensor = longer.unflatten(0, x.shape[:2])
    return extended
