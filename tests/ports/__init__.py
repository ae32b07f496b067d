"""Ports with one fault each and the truth about it, and sound ones, however unlike the original."""

from __future__ import annotations

from . import (
    bert_loops,
    bloom_alibi,
    encoder_residual,
    functions,
    gpt2_nano,
    gpt_oss_sinks,
    llama_einsum,
    mistral_bmm,
    multihead_packed,
    neox_functional,
    numpy_first,
    t5_bias,
)
from .case import Pair, Port
from .judging import Verdict, judge

__all__ = ["PORTS", "SOUND", "Pair", "Port", "Verdict", "judge"]

_STYLES = (
    llama_einsum,
    gpt2_nano,
    bert_loops,
    t5_bias,
    mistral_bmm,
    bloom_alibi,
    neox_functional,
    gpt_oss_sinks,
    multihead_packed,
    encoder_residual,
    functions,
    numpy_first,
)

PORTS: tuple[Port, ...] = tuple(port for style in _STYLES for port in style.PORTS)
"""Ports with one fault each."""

SOUND: tuple[Port, ...] = tuple(port for style in _STYLES for port in style.SOUND)
"""Ports without a fault."""
