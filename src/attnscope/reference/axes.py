"""The axes of every array of the reference, written once as jaxtyping annotations for NumPy.

``queries``, ``keys``, ``head_dim``, ``value_dim`` and ``sinks`` are those of every call; ``...``
stands for the axes before them: none, ``heads``, or ``batch heads`` (``batch kv_heads`` in k and
v). ``width`` is that of a token before the heads are split. Results are float64; arguments may be
any real type, and are widened.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

__all__ = [
    "AnyFloat",
    "Bias",
    "Context",
    "Hidden",
    "Key",
    "Matrix",
    "PerRow",
    "Query",
    "Scores",
    "Sinks",
    "Tokens",
    "Value",
    "Vector",
    "Visible",
    "Weights",
]

Query: TypeAlias = Float[np.ndarray, "... queries head_dim"]
"""q as it enters the attention: after projection, head split, QK-norm and rotary embedding."""

Key: TypeAlias = Float[np.ndarray, "... keys head_dim"]
"""k as it enters the attention, its heads not repeated."""

Value: TypeAlias = Float[np.ndarray, "... keys value_dim"]
"""v as it enters the attention, its heads not repeated."""

Scores: TypeAlias = Float[np.ndarray, "... queries keys"]
"""What enters the normaliser: ``q·k``, scaled, soft-capped, biased, masked (no unit)."""

Weights: TypeAlias = Float[np.ndarray, "... queries keys"]
"""What leaves the normaliser; under softmax each row sums to 1, less what a sink takes."""

Context: TypeAlias = Float[np.ndarray, "... queries value_dim"]
"""``weights @ v`` per head, before the output projection."""

PerRow: TypeAlias = Float[np.ndarray, "... queries"]
"""One number per row of the weights, such as the log-sum-exp."""

Visible: TypeAlias = Bool[np.ndarray, "... #queries #keys"]
"""A mask: True = may attend."""

Hidden: TypeAlias = Bool[np.ndarray, "... #queries #keys"]
"""A mask the other way round, as some libraries write it: True = hidden."""

Bias: TypeAlias = Float[np.ndarray, "... #queries #keys"]
"""Added to the scores."""

Sinks: TypeAlias = Float[np.ndarray, "... #queries sinks"]
"""Scores of extra columns that take their share of the softmax and have no value."""

Tokens: TypeAlias = Float[np.ndarray, "... length width"]
"""A sequence before its heads are split: (batch, length, width), or (length, width)."""

Matrix: TypeAlias = Float[np.ndarray, "out in"]
"""The weight of a projection, laid out as in ``torch.nn.Linear``: ``y = x @ W.T + b``."""

Vector: TypeAlias = Float[np.ndarray, " out"]
"""The bias of a projection, or the gain of a norm."""

AnyFloat: TypeAlias = Float[np.ndarray, "..."]
"""An array of any shape."""
