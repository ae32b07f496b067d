"""The axes of every tensor that a call hands out, written once as jaxtyping annotations.

The names of the axes are those of the canonical layout:

=============  ==========================================================================
``batch``      samples that were computed together and must not see each other
``heads``      query heads; ``heads = kv_heads * group``
``kv_heads``   key/value heads, fewer than ``heads`` in grouped-query attention
``queries``    positions that attend
``keys``       positions that are attended to
``head_dim``   width of one head of q and k
``sinks``      columns of the softmax that belong to no key
``value_dim``  width of one head of v and of the context
=============  ==========================================================================

``#axis`` marks an axis that may have size 1 and is then broadcast. Outside the tests an
annotation costs nothing: it is checked only where a type checker such as beartype is told to.
"""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Bool, Float
from torch import Tensor

__all__ = [
    "Bias",
    "Context",
    "Key",
    "PerHead",
    "PerKey",
    "PerRow",
    "Query",
    "Scores",
    "Sinks",
    "Value",
    "Visible",
    "Weights",
]

Query: TypeAlias = Float[Tensor, "batch heads queries head_dim"]
"""q as it enters the attention: after projection, head split, QK-norm and rotary embedding."""

Key: TypeAlias = Float[Tensor, "batch kv_heads keys head_dim"]
"""k as it enters the attention, its heads not repeated."""

Value: TypeAlias = Float[Tensor, "batch kv_heads keys value_dim"]
"""v as it enters the attention, its heads not repeated."""

Scores: TypeAlias = Float[Tensor, "batch heads queries keys"]
"""What enters the softmax: ``q·k``, scaled, soft-capped, biased, masked (no unit)."""

Weights: TypeAlias = Float[Tensor, "batch heads queries keys"]
"""What leaves the softmax; over the keys each row sums to 1, less what a sink takes."""

Context: TypeAlias = Float[Tensor, "batch heads queries value_dim"]
"""``weights @ v`` per head, before the output projection."""

Visible: TypeAlias = Bool[Tensor, "#batch #heads #queries #keys"]
"""A mask as a tensor: True = may attend."""

Bias: TypeAlias = Float[Tensor, "#batch #heads #queries #keys"]
"""Added to the scores."""

Sinks: TypeAlias = Float[Tensor, "#batch #heads #queries sinks"]
"""Scores of extra columns that take their share of the softmax and have no value."""

PerHead: TypeAlias = Float[Tensor, "batch heads"]
"""One number per sample and head."""

PerRow: TypeAlias = Float[Tensor, "batch heads queries"]
"""One number per row of the weights: entropy (nats), log-sum-exp, largest weight, distance."""

PerKey: TypeAlias = Float[Tensor, "batch heads keys"]
"""One number per column of the weights, such as the mass that a key receives."""
