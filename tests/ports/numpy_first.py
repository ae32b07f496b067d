"""Written in NumPy first, to be ported afterwards; and a module held to a NumPy specification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from .case import SCORES, Pair, Port
from .functions import tensors

Array = NDArray[np.float64]


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def specified(q: Array, k: Array, v: Array) -> Array:
    """Return causal attention, as one writes it on paper."""
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), scores, -np.inf)
    return np.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def torch_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def by_log_sum(q: Array, k: Array, v: Array) -> Array:
    """Return the same with the softmax from its logarithm, head by head."""
    context = np.empty((*q.shape[:-1], v.shape[-1]))
    for sample, head in np.ndindex(q.shape[:2]):
        scores = q[sample, head] @ k[sample, head].T * q.shape[-1] ** -0.5
        scores[np.tri(q.shape[-2], k.shape[-2], dtype=bool) == 0] = -np.inf
        logs = scores - np.logaddexp.reduce(scores, axis=-1)[:, None]
        context[sample, head] = np.exp(logs) @ v[sample, head]
    return context


def over_queries(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), scores, -np.inf)
    return np.einsum("bhqk,bhkd->bhqd", softmax(scores, axis=-2), v)


def scaled_by_all(q: Array, k: Array, v: Array) -> Array:
    width = q.shape[1] * q.shape[-1]
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width)
    scores = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), scores, -np.inf)
    return np.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def seen_from_behind(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(q.shape[-2], k.shape[-2], 1, dtype=bool), scores, -np.inf)
    return np.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def ported_without_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def ported_with_zero_fill(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.tril().softmax(-1) @ v


def ported_turned(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhkq", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), float("-inf"))
    return scores.softmax(-1) @ v


def pair(candidate: Callable[..., Any], reference: Callable[..., Any]) -> Callable[[], Pair]:
    return lambda: Pair(candidate, reference, tensors())


def fault(
    candidate: Callable[..., Any],
    reference: Callable[..., Any],
    key: str,
    stages: tuple[str, ...],
    *says: str,
) -> Port:
    return Port(
        name=f"numpy-{candidate.__name__.replace('_', '-')}",
        reference="NumPy function" if reference is specified else "F.scaled_dot_product_attention",
        style="NumPy" if reference is not specified else "function",
        make=pair(candidate, reference),
        key=key,
        stages=stages,
        says=says,
    )


HIDDEN = (*SCORES, "weights", "context", "model", "output")
PORTS = (
    fault(over_queries, torch_causal, "softmax-axis", HIDDEN, "quer"),
    fault(scaled_by_all, torch_causal, "scale", HIDDEN, "d_model", "0.1768", "0.177"),
    fault(seen_from_behind, torch_causal, "mask-shifted", HIDDEN, "by 1", "by one"),
    fault(ported_without_mask, specified, "mask-missing", HIDDEN, "causal"),
    fault(ported_with_zero_fill, specified, "mask-fill", HIDDEN, "0"),
    fault(ported_turned, specified, "q-k-swapped", (*HIDDEN, "q", "k"), "swap", "as k"),
)


def sound(name: str, candidate: Callable[..., Any], reference: Callable[..., Any]) -> Port:
    return Port(
        name=f"numpy-{name}",
        reference="NumPy function" if reference is specified else "F.scaled_dot_product_attention",
        style="NumPy" if reference is not specified else "function",
        make=pair(candidate, reference),
    )


SOUND = (
    sound("specified-against-torch", specified, torch_causal),
    sound("by-log-sum-against-torch", by_log_sum, torch_causal),
    sound("torch-against-specified", torch_causal, specified),
    sound("by-log-sum-against-specified", by_log_sum, specified),
)
