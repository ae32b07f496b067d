"""Plain functions of (q, k, v), held to PyTorch's own function and to the definition."""

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

from .case import SCORES, WEIGHTS, Pair, Port

Function = Callable[..., Any]
GRADIENTS = ("grad.weights", "grad.scores", "grad.raw_scores")


def tensors(
    queries: int = 6, keys: int = 6, heads: int = 4, kv_heads: int = 4, size: int = 8
) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k and v, in the canonical layout; v is narrower."""
    generator = torch.Generator().manual_seed(11)

    def draw(*shape: int) -> Tensor:
        return torch.randn(2, *shape, generator=generator)

    return draw(heads, queries, size), draw(kv_heads, keys, size), draw(kv_heads, keys, 5)


def torch_full(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def torch_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def torch_grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def defined_full(
    q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    return attention(q, k, v).context


def defined_top_left(
    q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    return attention(q, k, v, causal="top-left").context


def defined_bottom_right(
    q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    return attention(q, k, v, causal="bottom-right").context


def defined_capped(
    q: NDArray[np.float64], k: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    return attention(q, k, v, softcap=2.0).context


def hide_future(scores: Tensor, corner: int = 0) -> Tensor:
    visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(corner)
    return scores.masked_fill(~visible, -math.inf)


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


# --- with one fault ---------------------------------------------------------------------------


def not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT, dim=-1) @ v


def two_percent(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(1.02 * scores_of(q, k), dim=-1) @ v


def other_corner(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return hide_future(scores_of(q, k), k.shape[-2] - q.shape[-2]).softmax(-1) @ v


def first_corner(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhij,bhjd->bhid", hide_future(scores_of(q, k)).softmax(-1), v)


def self_hidden(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The last queries of a longer text, each of which sees the keys before its own."""
    return hide_future(scores_of(q, k), k.shape[-2] - q.shape[-2] - 1).softmax(-1) @ v


def future_only(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    visible = torch.ones(q.shape[-2], k.shape[-2]).tril().bool()
    return scores_of(q, k).masked_fill(visible, -math.inf).softmax(-1) @ v


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.softmax(scores_of(q, k), dim=2) @ v


def not_normalised(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).exp() @ v


def masked_afterwards(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).softmax(-1).tril() @ v


def factor(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return 1.03 * torch.softmax(scores_of(q, k), dim=-1) @ v


def in_half_precision(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).half().softmax(-1).float() @ v


def weights_detached(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).softmax(-1).detach() @ v


def keys_detached(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k.detach()).softmax(-1) @ v


def cap_forgotten(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).softmax(-1) @ v


def other_cap(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (3.0 * torch.tanh(scores_of(q, k) / 3.0)).softmax(-1) @ v


def cap_by_clamp(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).clamp(-2.0, 2.0).softmax(-1) @ v


def tiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1)
    return hide_future(scores_of(q, k)).softmax(-1) @ v


def key_as_value(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).softmax(-1) @ k[..., : v.shape[-1]]


def always_dropping(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.dropout(scores_of(q, k).softmax(-1), 0.2, training=True) @ v


def heads_swapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    context = scores_of(q, k).softmax(-1) @ v
    return context[:, [1, 0, 2, 3]]


# --- right ------------------------------------------------------------------------------------


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scores_of(q, k).softmax(-1) @ v


def causal_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return hide_future(scores_of(q, k)).softmax(-1) @ v


def in_bfloat16(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    low = by_hand(q.bfloat16(), k.bfloat16(), v.bfloat16())
    return low.float()


def scale_shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    root = q.shape[-1] ** -0.25
    return ((q * root) @ (k * root).mT).softmax(-1) @ v


def features_shuffled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    order = torch.tensor([3, 1, 7, 0, 6, 2, 5, 4])
    return by_hand(q[..., order], k[..., order], v)


def features_turned(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Both are multiplied with one rotation, which every product undoes."""
    generator = torch.Generator().manual_seed(0)
    turn, _ = torch.linalg.qr(torch.randn(8, 8, generator=generator))
    return by_hand(q @ turn, k @ turn, v)


def power_of_two(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    powers = torch.exp2((q @ k.mT) * (q.shape[-1] ** -0.5 * math.log2(math.e)))
    return (powers @ v) / powers.sum(-1, keepdim=True)


def most_taken_off(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = scores_of(q, k)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True) @ v


def key_by_key_block(q: Tensor, k: Tensor, v: Tensor, block: int = 2) -> Tensor:
    """Two keys at a time, as in flash attention."""
    top = torch.full((*q.shape[:-1], 1), -math.inf)
    total, context = torch.zeros_like(top), torch.zeros(*q.shape[:-1], v.shape[-1])
    for start in range(0, k.shape[-2], block):
        part = slice(start, start + block)
        scores = scores_of(q, k[:, :, part])
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        powers, fade = (scores - higher).exp(), (top - higher).exp()
        total = total * fade + powers.sum(-1, keepdim=True)
        context = context * fade + powers @ v[:, :, part]
        top = higher
    return context / total


def query_by_query_block(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.cat([torch_full(part, k, v) for part in q.split(2, dim=-2)], dim=-2)


def sample_by_sample(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.stack(
        [torch_full(*(x[None] for x in one))[0] for one in zip(q, k, v, strict=True)]
    )


def head_by_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.stack([by_hand(q[:, h], k[:, h], v[:, h]) for h in range(q.shape[1])], dim=1)


def repeated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    return torch_causal(q, k, v)


def heads_backwards(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return by_hand(q.flip(1), k.flip(1), v.flip(1)).flip(1)


def keys_shuffled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    return by_hand(q, k[:, :, order], v[:, :, order])


def capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (2.0 * torch.tanh(scores_of(q, k) / 2.0)).softmax(-1) @ v


def pair(candidate: Function, reference: Function, **sizes: int) -> Callable[[], Pair]:
    return lambda: Pair(candidate, reference, tensors(**sizes))


SDPA, DEFINITION = "F.scaled_dot_product_attention", "attnscope.reference"
LONG = {"queries": 3, "keys": 7}


def fault(
    candidate: Function,
    reference: Function,
    key: str,
    stages: tuple[str, ...],
    *says: str,
    **sizes: int,
) -> Port:
    name = candidate.__name__.replace("_", "-")
    return Port(
        name=f"function-{name}",
        reference=SDPA if reference.__name__.startswith("torch") else DEFINITION,
        style="function",
        make=pair(candidate, reference, **sizes),
        key=key,
        stages=stages,
        says=says,
    )


S = ("scores",)
GROUPED = {"kv_heads": 2}
PORTS = (
    fault(not_scaled, torch_full, "scale", SCORES, "head_dim"),
    fault(two_percent, torch_full, "scale", SCORES, "1.02", "0.3606", "0.36"),
    fault(other_corner, torch_causal, "mask-corner", S, "bottom-right", **LONG),
    fault(first_corner, defined_bottom_right, "mask-corner", S, "top-left", **LONG),
    fault(self_hidden, defined_bottom_right, "mask-shifted", S, "by -1", "by one", **LONG),
    fault(future_only, torch_causal, "mask-inverted", S, "inverted", queries=6, keys=7),
    fault(over_queries, torch_full, "softmax-axis", ("weights",), "quer"),
    fault(not_normalised, torch_full, "normaliser", ("weights",), "exp"),
    fault(masked_afterwards, torch_causal, "mask-after-softmax", WEIGHTS, "after"),
    fault(factor, torch_full, "weights-factor", ("weights", "context"), "1.03"),
    fault(in_half_precision, torch_full, "rounding", WEIGHTS, "float16"),
    fault(
        weights_detached, torch_full, "gradient-stopped", (*GRADIENTS, "grad.q", "grad.k"), "detach"
    ),
    fault(keys_detached, torch_full, "gradient-stopped", ("grad.k", "grad.input"), "of k "),
    fault(cap_forgotten, defined_capped, "softcap", S, "2"),
    fault(other_cap, defined_capped, "softcap", S, "3"),
    fault(cap_by_clamp, defined_capped, "softcap", S, "clamp"),
    fault(tiled, torch_grouped, "kv-heads-tiled", ("k", "v", "raw_scores"), "tile", **GROUPED),
    fault(key_as_value, torch_full, "k-for-v", ("v", "context"), "as k"),
    fault(always_dropping, torch_full, "dropout", ("weights",), "0.2"),
    fault(heads_swapped, torch_full, "heads-permuted", ("context", "output", "model"), "head"),
)


def sound(candidate: Function, reference: Function = torch_full, **sizes: int) -> Port:
    against = "torch" if reference.__name__.startswith("torch") else "definition"
    name = candidate.__name__.replace("_", "-")
    return Port(
        name=f"function-{name}-against-{against}",
        reference=SDPA if against == "torch" else DEFINITION,
        style="function",
        make=pair(candidate, reference, **sizes),
    )


SOUND = (
    sound(by_hand),
    sound(by_hand, defined_full),
    sound(causal_by_hand, torch_causal),
    sound(causal_by_hand, defined_top_left),
    sound(first_corner, torch_causal, **LONG),
    sound(other_corner, defined_bottom_right, **LONG),
    sound(in_bfloat16),
    sound(scale_shared),
    sound(features_shuffled),
    sound(features_turned),
    sound(power_of_two),
    sound(most_taken_off),
    sound(key_by_key_block),
    sound(query_by_query_block),
    sound(sample_by_sample),
    sound(head_by_head),
    sound(repeated, torch_grouped, **GROUPED),
    sound(heads_backwards),
    sound(keys_shuffled),
    sound(capped, defined_capped),
    sound(key_by_key_block, defined_full),
)
