"""More plain functions, in torch and in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attnscope.reference import attention
from tests.ports.case import SCORES, Pair, Port
from tests.ports.functions import defined_capped, tensors, torch_causal, torch_full

Array = NDArray[np.float64]
SINKS = np.array([1.0, -0.5, 0.3, 2.0])


def torch_cross(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend as the last tokens of a longer text do: aligned to its end."""
    bias = torch.zeros(q.shape[-2], k.shape[-2])
    hidden = torch.ones_like(bias).triu(1 + k.shape[-2] - q.shape[-2]).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(hidden, -math.inf))


def torch_windowed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    ago = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(ago >= 0) & (ago < 3))


def defined_with_sinks(q: Array, k: Array, v: Array) -> Array:
    return attention(q, k, v, sinks=SINKS[:, None, None]).context


def kernel_at_the_start(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def wider_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = []
    for i in range(q.shape[-2]):
        near = slice(max(0, i - 3), i + 1)
        scores = q[..., i : i + 1, :] @ k[..., near, :].mT / q.shape[-1] ** 0.5
        rows.append(scores.softmax(-1) @ v[..., near, :])
    return torch.cat(rows, dim=-2)


def right_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    rows = []
    for i in range(q.shape[-2]):
        near = slice(max(0, i - 2), i + 1)
        scores = q[..., i : i + 1, :] @ k[..., near, :].mT / q.shape[-1] ** 0.5
        rows.append(scores.softmax(-1) @ v[..., near, :])
    return torch.cat(rows, dim=-2)


def zeros_hidden(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Multiply by the mask: hidden scores are zero, not minus infinity."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
    return (scores * torch.ones_like(scores).tril()).softmax(-1) @ v


def shifted_scale(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(k.shape[-2]))


def roots_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    root = math.sqrt(math.sqrt(q.shape[-1]))
    return (
        torch.baddbmm(
            torch.zeros(()), (q / root).flatten(0, 1), (k / root).flatten(0, 1).mT, alpha=0.5
        )
        .softmax(-1)
        .bmm(v.flatten(0, 1))
        .unflatten(0, q.shape[:2])
    )


def cap_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Cap of 1 for a cap of 2."""
    return torch.tanh(q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


def sinks_forgotten(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def one_sink(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every head takes the sink of the first."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    powers = scores.exp()
    return powers / (powers.sum(-1, keepdim=True) + math.exp(SINKS[0])) @ v


def sinks_kept(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One key more, with a value of zero."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    column = torch.tensor(SINKS, dtype=q.dtype).view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    nothing = torch.zeros_like(v[:, :, :1])
    return torch.cat((scores, column), -1).softmax(-1) @ torch.cat((v, nothing), -2)


def left_over(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v) * 0.9


def query_stopped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with torch.no_grad():
        scaled = q / math.sqrt(q.shape[-1])
    return (scaled @ k.mT).softmax(-1) @ v


def numpy_unscaled(q: Array, k: Array, v: Array) -> Array:
    powers = np.exp(q @ np.swapaxes(k, -1, -2))
    return powers / powers.sum(-1, keepdims=True) @ v


def numpy_in_float16(q: Array, k: Array, v: Array) -> Array:
    scores = (q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])).astype(np.float16)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights: Array = (powers / powers.sum(-1, keepdims=True)).astype(np.float64)
    return weights @ v


def pair(candidate: Any, reference: Any, **sizes: int) -> Callable[[], Pair]:
    return lambda: Pair(candidate, reference, tensors(**sizes))


def fault(
    candidate: Any, reference: Any, key: str, stages: tuple[str, ...], *says: str, **sizes: int
) -> Port:
    return Port(
        name=f"function-{candidate.__name__.replace('_', '-')}",
        reference="F.scaled_dot_product_attention",
        style="function",
        make=pair(candidate, reference, **sizes),
        key=key,
        stages=stages,
        says=says,
    )


S, W = ("scores",), ("weights", "context")
NUMPY = (*SCORES, "weights", "context", "model", "output")
PORTS = (
    fault(kernel_at_the_start, torch_cross, "mask-corner", S, "top-left", queries=3, keys=7),
    fault(wider_window, torch_windowed, "window", S, "of 4"),
    fault(zeros_hidden, torch_causal, "mask-fill", S, "0"),
    fault(shifted_scale, torch_full, "scale", SCORES, "0.4082", "0.408", "keys", keys=6),
    fault(roots_twice, torch_full, "scale", ("q", "k", *SCORES), "0.1768", "0.177", "0.5"),
    fault(cap_twice, defined_capped, "softcap", S, "1"),
    fault(sinks_forgotten, defined_with_sinks, "sinks", NUMPY, "sink"),
    fault(one_sink, defined_with_sinks, "sinks", NUMPY, "sink"),
    fault(left_over, torch_full, "weights-factor", (*W, "output", "model"), "0.9"),
    fault(query_stopped, torch_full, "gradient-stopped", ("grad.q", "grad.input"), "no_grad"),
    fault(numpy_unscaled, torch_full, "scale", NUMPY, "head_dim"),
    fault(numpy_in_float16, torch_full, "rounding", NUMPY, "float16"),
)

SOUND = (
    Port(
        name="function-right-window",
        reference="F.scaled_dot_product_attention",
        style="function",
        make=pair(right_window, torch_windowed),
    ),
    Port(
        name="function-sinks-kept",
        reference="attnscope.reference",
        style="function",
        make=pair(sinks_kept, defined_with_sinks),
    ),
)
