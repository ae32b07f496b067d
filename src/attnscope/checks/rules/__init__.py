"""The table of rules: a file for each, named after the defect; none imports torch when read."""

from __future__ import annotations

from attnscope.checks.rule import Rule
from attnscope.checks.rules import (
    backend_disagreement,
    batch_attention,
    cache_mismatch,
    causal_alignment,
    config_ignored,
    coupled_scale,
    dead_head,
    diagonal_head,
    document_leak,
    dropout_in_eval,
    dropout_place,
    duplicate_heads,
    empty_row,
    entropy_collapse,
    future_leak,
    head_scramble,
    hidden_context,
    idle_parameter,
    ignored_argument,
    init_scale,
    kernel_layout,
    kv_head_map,
    mask_after_softmax,
    mask_broadcast,
    mask_fill,
    mask_polarity,
    no_gradient,
    no_position,
    non_finite,
    padded_positions,
    padding_leak,
    position_axis,
    position_table,
    residual_norm,
    returned_weights,
    rotary,
    saturated,
    scale,
    score_growth,
    sink_head,
    softmax_axis,
    softmax_precision,
    unloaded_parameter,
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
    saturated,  # AS302
    score_growth,  # AS303
    softmax_precision,  # AS304
    coupled_scale,  # AS305
    config_ignored,  # AS306
    dead_head,  # AS401
    duplicate_heads,  # AS402
    entropy_collapse,  # AS403
    sink_head,  # AS404
    diagonal_head,  # AS405
    no_position,  # AS501
    position_axis,  # AS502
    rotary,  # AS503
    padded_positions,  # AS504
    position_table,  # AS505
    cache_mismatch,  # AS601
    dropout_in_eval,  # AS701
    dropout_place,  # AS702
    backend_disagreement,  # AS801
    non_finite,  # AS802
    returned_weights,  # AS803
    init_scale,  # AS901
    no_gradient,  # AS902
    idle_parameter,  # AS903
    residual_norm,  # AS904
    unloaded_parameter,  # AS905
)

RULES: tuple[Rule, ...] = tuple(module.RULE for module in _MODULES)
"""All rules, by code."""


def rule_of(code: str) -> Rule | None:
    """Return the rule of a code or name, None where there is none."""
    wanted = code.strip()
    return next((r for r in RULES if wanted.upper() == r.code or wanted.lower() == r.name), None)
