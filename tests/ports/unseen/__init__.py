"""Further ports, kept apart: what was not looked at while `verify` was written."""

from __future__ import annotations

from tests.ports.case import Port

from . import (
    bert_kernel,
    cancelling,
    cross_widths,
    gemma2_lists,
    gptj_layouts,
    more_functions,
    mpt_slopes,
    opt_torch,
    qwen3_norms,
)

__all__ = ["UNSEEN", "UNSEEN_SOUND"]

_STYLES = (
    bert_kernel,
    cancelling,
    cross_widths,
    gemma2_lists,
    gptj_layouts,
    mpt_slopes,
    opt_torch,
    qwen3_norms,
    more_functions,
)

UNSEEN: tuple[Port, ...] = tuple(port for style in _STYLES for port in style.PORTS)
"""Ports with one fault each."""

UNSEEN_SOUND: tuple[Port, ...] = tuple(port for style in _STYLES for port in style.SOUND)
"""Ports without a fault."""
