"""The parameters of `torch.nn.MultiheadAttention`, under its names: made, filled, and used.

The order matters: the same seed gives the same first values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from attnscope.nn.heads import Tokens
from attnscope.nn.output import OutputProjection
from attnscope.nn.projections import Projections, Widths, project_packed, project_separately

__all__ = ["add_parameters", "project", "reset_parameters"]

_INPUTS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")


def add_parameters(
    module: Any,
    widths: Widths,
    projections: Projections | None,
    output: OutputProjection | None,
    *,
    add_bias_kv: bool,
) -> None:
    """Register the parameters of the projections, and of the extra key and value.

    `in_proj_weight` (q + 2 · kv, embed), or `q_proj_weight`, `k_proj_weight` and `v_proj_weight`
    where widths differ; `in_proj_bias`; `out_proj`; `bias_k`, `bias_v` (1, 1, kv). What is not
    there is None. Where `projections` is given, the first five are None and the module has it.
    """
    shapes = _shapes(widths) if projections is None else {}
    if add_bias_kv:
        shapes |= {"bias_k": (1, 1, widths.kv), "bias_v": (1, 1, widths.kv)}
    for name in (*_INPUTS, "in_proj_bias", "bias_k", "bias_v"):
        parameter = None
        if name in shapes:
            empty = torch.empty(shapes[name], device=widths.device, dtype=widths.dtype)
            parameter = nn.Parameter(empty)
        module.register_parameter(name, parameter)
    module.projections = None if projections is None else projections.build(widths)
    module.out_proj = (
        NonDynamicallyQuantizableLinear(
            widths.q, widths.embed, widths.bias, widths.device, widths.dtype
        )
        if output is None
        else output.build(widths)
    )
    reset_parameters(module)


def project(
    module: Any, query: Tokens, key: Tokens, value: Tokens
) -> tuple[Tokens, Tokens, Tokens]:
    """Return q, k and v (tokens, batch, heads · head_dim) of the inputs (tokens, batch, width)."""
    if module.projections is not None:
        q, k, v = module.projections(query, key, value)
        return q, k, v
    weight, bias, widths = module.in_proj_weight, module.in_proj_bias, module.widths
    if weight is not None:
        return project_packed(query, key, value, weight, bias, widths)
    weights = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
    return project_separately(query, key, value, weights, bias, widths)


def _shapes(widths: Widths) -> dict[str, tuple[int, ...]]:
    rows = widths.q + 2 * widths.kv
    bias: dict[str, tuple[int, ...]] = {"in_proj_bias": (rows,)} if widths.bias else {}
    if widths.same:
        return {"in_proj_weight": (rows, widths.embed), **bias}
    return {
        "q_proj_weight": (widths.q, widths.embed),
        "k_proj_weight": (widths.kv, widths.keys),
        "v_proj_weight": (widths.kv, widths.values),
        **bias,
    }


def reset_parameters(module: Any) -> None:
    """Fill the parameters: Xavier uniform for weights, zeros for biases, as torch does."""
    biases: list[Tensor | None] = [module.in_proj_bias]
    for name in _INPUTS:
        weight = getattr(module, name)
        if weight is not None:
            nn.init.xavier_uniform_(weight)
    if module.projections is not None:
        for layer in module.projections.children():
            nn.init.xavier_uniform_(layer.weight)
            biases.append(layer.bias)
    biases.append(module.out_proj.bias)
    for bias in biases:
        if bias is not None:
            nn.init.zeros_(bias)
    for extra in (module.bias_k, module.bias_v):
        if extra is not None:
            nn.init.xavier_normal_(extra)
