"""Positions: every common way in which attention learns that tokens have an order.

Absolute ones are added to the embeddings (sinusoidal, learned), rotary ones turn q and k, relative
ones are added to the scores (ALiBi, T5) or to keys and values (Shaw). Each stands here as its
formula, with the backward of what is learned or passed through.
"""

from __future__ import annotations

from attnscope.reference.positions.alibi import (
    AlibiForm,
    alibi_bias,
    alibi_bias_backward,
    alibi_slopes,
)
from attnscope.reference.positions.learned import (
    learned_positions,
    learned_positions_backward,
)
from attnscope.reference.positions.rotary_pairing import convert_pairing, pairing_order
from attnscope.reference.positions.rotary_ramps import (
    Llama3Scaling,
    LongRopeScaling,
    YarnScaling,
)
from attnscope.reference.positions.rotary_scaling import (
    DynamicNTKScaling,
    LinearScaling,
    NTKScaling,
    ProportionalScaling,
    RotaryScaling,
)
from attnscope.reference.positions.rotary_turning import (
    Pairing,
    rotary,
    rotary_backward,
    rotary_frequencies,
    rotary_table,
)
from attnscope.reference.positions.shaw import (
    shaw_context,
    shaw_context_backward,
    shaw_rows,
    shaw_scores,
    shaw_scores_backward,
)
from attnscope.reference.positions.sinusoids import (
    SinusoidalLayout,
    Spacing,
    sinusoidal,
    sinusoidal_at,
)
from attnscope.reference.positions.t5 import t5_bias, t5_bias_backward, t5_buckets

__all__ = [
    "AlibiForm",
    "DynamicNTKScaling",
    "LinearScaling",
    "Llama3Scaling",
    "LongRopeScaling",
    "NTKScaling",
    "Pairing",
    "ProportionalScaling",
    "RotaryScaling",
    "SinusoidalLayout",
    "Spacing",
    "YarnScaling",
    "alibi_bias",
    "alibi_bias_backward",
    "alibi_slopes",
    "convert_pairing",
    "learned_positions",
    "learned_positions_backward",
    "pairing_order",
    "rotary",
    "rotary_backward",
    "rotary_frequencies",
    "rotary_table",
    "shaw_context",
    "shaw_context_backward",
    "shaw_rows",
    "shaw_scores",
    "shaw_scores_backward",
    "sinusoidal",
    "sinusoidal_at",
    "t5_bias",
    "t5_bias_backward",
    "t5_buckets",
]
