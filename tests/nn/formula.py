"""The forward of a MultiheadAttention with parts, written once more with the NumPy reference.

Nothing of attnscope.nn computes here: parameters and settings alone are read off the module.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnscope import reference
from attnscope.nn import (
    AcrossHeads,
    ALiBi,
    MultiheadAttention,
    Rotary,
    ShawKeys,
    Sinks,
    Softcap,
    T5Bias,
)
from attnscope.nn.headnorm import HeadNorm


def array(x: Tensor) -> np.ndarray:
    return x.detach().double().numpy()


def expected(
    module: MultiheadAttention,
    inputs: tuple[Tensor, Tensor, Tensor],
    *,
    visible: np.ndarray | None = None,
    qk_norm: HeadNorm | None = None,
    context_norm: HeadNorm | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return output (batch, queries, embed_dim) and weights of inputs (batch, tokens, width)."""
    q, k, v = projected(module, *map(array, inputs))
    q, k, v = (split(x, module.head_dim) for x in (q, k, v))
    if qk_norm is not None:
        q, k = normed(q, qk_norm, module.q_norm), normed(k, qk_norm, module.k_norm)
    places = np.arange(q.shape[2]), np.arange(k.shape[2])
    scale = module.head_dim**-0.5 if module.scale is None else module.scale
    bias = None
    match module.positions:
        case Rotary() as part:
            kind: dict[str, Any] = {"base": part.base, "pairing": part.pairing, "share": part.share}
            q, k = (reference.rotary(x, p, **kind) for x, p in zip((q, k), places, strict=True))
        case ALiBi():
            slopes = reference.alibi_slopes(module.num_heads)
            bias = reference.alibi_bias(slopes, *places, form="symmetric")
        case T5Bias() as part:
            buckets = reference.t5_buckets(
                places[1] - places[0][:, None],
                bidirectional=part.both_ways,
                buckets=part.buckets,
                max_distance=part.reach,
            )
            bias = array(part.table.weight)[buckets].transpose(2, 0, 1)
        case ShawKeys() as part:
            distance = np.clip(places[1] - places[0][:, None], -part.reach, part.reach)
            table = array(part.vectors)[distance + part.reach]  # queries keys head_dim
            bias = np.einsum("bhqd,qkd->bhqk", q, table) * scale
    result = reference.attention(
        q,
        k,
        v,
        scale=scale,
        bias=bias,
        mask=visible,
        softcap=module.scores.cap if isinstance(module.scores, Softcap) else None,
        sinks=_sinks(module),
    )
    context = np.asarray(result.context)
    if context_norm is not None:
        context = normed(context, context_norm, module.context_norm)
    return merged(module, context), result.weights


def projected(module: MultiheadAttention, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    named = {name: array(p) for name, p in module.named_parameters()}
    rows = np.cumsum([module.widths.q, module.widths.kv])
    if "in_proj_weight" in named:
        weights = np.split(named["in_proj_weight"], rows)
        biases = np.split(named["in_proj_bias"], rows)
    elif "q_proj_weight" in named:
        weights = [named[f"{name}_proj_weight"] for name in "qkv"]
        biases = np.split(named["in_proj_bias"], rows)
    elif "projections.qkv.weight" in named:
        weights = np.split(named["projections.qkv.weight"], rows)
        biases = np.split(named["projections.qkv.bias"], rows)
    else:
        found = {
            name: next(n for n in (name, *shared) if f"projections.{n}.weight" in named)
            for name, shared in (("q", ["qk"]), ("k", ["qk", "kv"]), ("v", ["kv"]))
        }
        weights = [named[f"projections.{name}.weight"] for name in found.values()]
        biases = [named[f"projections.{name}.bias"] for name in found.values()]
        if found["v"] == "kv":
            inputs = (inputs[0], inputs[1], inputs[1])
    return tuple(x @ w.T + b for x, w, b in zip(inputs, weights, biases, strict=True))


def split(x: np.ndarray, head_dim: int) -> np.ndarray:
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, width // head_dim, head_dim).transpose(0, 2, 1, 3)


def normed(x: np.ndarray, norm: HeadNorm, module: nn.Module | None) -> np.ndarray:
    """Norm each head, or all side by side, by the formula of RMSNorm or LayerNorm."""
    assert module is not None
    across = isinstance(norm, AcrossHeads)
    kind = norm.norm if across or hasattr(norm, "norm") else norm  # type: ignore[union-attr]
    gains = {name.split(".")[-1]: array(p) for name, p in module.named_parameters()}
    shape = x.shape
    if across:
        x = x.transpose(0, 2, 1, 3).reshape(shape[0], shape[2], -1)
    if kind is nn.LayerNorm:
        x = x - x.mean(-1, keepdims=True)
        epsilon = 1e-5
    else:
        epsilon = float(torch.finfo(torch.float64).eps)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
    x = x * gains["weight"] + gains.get("bias", 0.0)
    if across:
        x = x.reshape(shape[0], shape[2], shape[1], shape[3]).transpose(0, 2, 1, 3)
    return x


def _sinks(module: MultiheadAttention) -> np.ndarray | None:
    if module.sinks is None:
        return None
    if isinstance(module.sinks, Sinks):
        return array(module.sinks.logits)[None, :, None]
    return np.zeros((1, 1, 1, 1))


def merged(module: MultiheadAttention, context: np.ndarray) -> np.ndarray:
    weight, bias = array(module.out_proj.weight), array(module.out_proj.bias)
    output: np.ndarray
    if weight.ndim == 3:
        output = np.einsum("bhqd,hde->bqe", context, weight)
    else:
        batch, _, queries, _ = context.shape
        side_by_side = context.transpose(0, 2, 1, 3).reshape(batch, queries, -1)
        output = side_by_side @ weight.T
    output += bias
    return output
