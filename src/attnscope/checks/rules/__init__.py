"""The table of rules: one file a rule, named after the defect; none imports torch when it is read."""

from __future__ import annotations

from attnscope.checks.rule import Rule
from attnscope.checks.rules import (
    batch_attention,
    cache_mismatch,
    causal_alignment,
    config_ignored,
    coupled_scale,
    document_leak,
    dropout_in_eval,
    dropout_place,
    empty_row,
    future_leak,
    head_scramble,
    hidden_context,
    idle_parameter,
    ignored_argument,
    kernel_layout,
    kv_head_map,
    mask_after_softmax,
    mask_broadcast,
    mask_fill,
    mask_polarity,
    no_gradient,
    no_position,
    non_finite,
    padding_leak,
    residual_norm,
    returned_weights,
    rotary,
    scale,
    softmax_axis,
    width_mismatch,
    window,
    wrong_stream,
)

__all__ = ["RULES", "rule_of"]

_MODULES = (
    softmax_axis,  # AS101
    batch_attention,  # AS102
    head_scramble,  # AS103
    kv_head_map,  # AS104
    width_mismatch,  # AS105
    kernel_layout,  # AS106
    wrong_stream,  # AS107
    future_leak,  # AS201
    padding_leak,  # AS202
    empty_row,  # AS203
    mask_after_softmax,  # AS204
    mask_polarity,  # AS205
    causal_alignment,  # AS206
    mask_fill,  # AS207
    ignored_argument,  # AS208
    document_leak,  # AS209
    window,  # AS210
    mask_broadcast,  # AS211
    hidden_context,  # AS212
    scale,  # AS301
    coupled_scale,  # AS305
    config_ignored,  # AS306
    no_position,  # AS501
    rotary,  # AS503
    cache_mismatch,  # AS601
    dropout_in_eval,  # AS701
    dropout_place,  # AS702
    non_finite,  # AS802
    returned_weights,  # AS803
    no_gradient,  # AS902
    idle_parameter,  # AS903
    residual_norm,  # AS904
)

RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)
"""All rules, by code."""


def rule_of(code: str) -> Rule | None:
    """Return the rule of a code or name, None where there is none."""
    wanted = code.strip()
    return next((r for r in RULES if wanted.upper() == r.code or wanted.lower() == r.name), None)
