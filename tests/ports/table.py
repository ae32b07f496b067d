"""A table of twelve faults that tools for comparing tensors miss, and two harmless partners.

Grouped causal attention with rotary positions and padding; each fault is one step of it, done
wrongly. `KINDS` holds the steps of a fault, `core` is a plain function of (q, k, v), `Stack` a
model of any depth whose layers may each have another kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES

BATCH, HEADS, KV_HEADS, LENGTH, SIZE = 2, 4, 2, 12, 8
WIDTH = HEADS * SIZE
PADDED = 3  # keys of the second sample
LOST = 7  # the token that is lost


def phases(length: int) -> Tensor:
    """Angles ``(length, SIZE / 2)``."""
    rates = 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
    return torch.arange(length)[:, None] * rates


def halves(x: Tensor) -> Tensor:
    """Rotate feature i together with feature i + SIZE / 2."""
    angles = phases(x.shape[-2])
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def neighbours(x: Tensor) -> Tensor:
    """Rotate feature 2i together with feature 2i + 1."""
    angles = phases(x.shape[-2])
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def repeated(x: Tensor) -> Tensor:
    return x.repeat_interleave(HEADS // KV_HEADS, dim=1)


def tiled(x: Tensor) -> Tensor:
    return x.repeat(1, HEADS // KV_HEADS, 1, 1)


def visible(length: int) -> Tensor:
    """Return what may attend: the past, and no padding."""
    keep = torch.ones(BATCH, 1, 1, length, dtype=torch.bool)
    keep[1, ..., max(length - PADDED, 1) :] = False
    return torch.ones(length, length).tril().bool() & keep


def one_too_wide(length: int) -> Tensor:
    keep = torch.ones(BATCH, 1, 1, length, dtype=torch.bool)
    keep[1, ..., max(length - PADDED, 1) :] = False
    return torch.ones(length, length).tril(1).bool() & keep


def padding_ignored(length: int) -> Tensor:
    return torch.ones(BATCH, 1, length, length).tril().bool()


def one_padded_seen(length: int) -> Tensor:
    seen = visible(length)
    seen[1, :, -2:, -2] = True
    return seen


def hidden_by_infinity(scores: Tensor, seen: Tensor) -> Tensor:
    return scores.masked_fill(~seen, -math.inf)


def hidden_by_one(scores: Tensor, seen: Tensor) -> Tensor:
    return scores + (seen.to(scores.dtype) - 1)


def softmax(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1)


def dropping(scores: Tensor) -> Tensor:
    return F.dropout(scores.softmax(dim=-1), 0.1)


def too_much(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1) * 1.03


def as_it_is(x: Tensor) -> Tensor:
    return x


def swapped(context: Tensor) -> Tensor:
    return context[:, [0, 3, 2, 1]]


def one_token_lost(context: Tensor) -> Tensor:
    lost = torch.ones(context.shape[-2], 1, dtype=context.dtype)
    lost[LOST] = 0
    return context * lost


class CarelessSoftmax(torch.autograd.Function):
    """A softmax whose backward forgets the sum over the row."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = scores.softmax(dim=-1)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        return weights * gradients[0]


def careless(scores: Tensor) -> Tensor:
    apply: Callable[[Tensor], Tensor] = CarelessSoftmax.apply
    return apply(scores)


def weights_stopped(scores: Tensor) -> Tensor:
    return scores.softmax(dim=-1).detach()


def values_stopped(x: Tensor) -> Tensor:
    return repeated(x.detach())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The steps of one attention, and what is true where a step is wrong."""

    rotate: Callable[[Tensor], Tensor] = halves
    widen: Callable[[Tensor], Tensor] = repeated
    widen_v: Callable[[Tensor], Tensor] | None = None
    scale: float = SIZE**-0.5
    seen: Callable[[int], Tensor] = visible
    hide: Callable[[Tensor, Tensor], Tensor] = hidden_by_infinity
    weigh: Callable[[Tensor], Tensor] = softmax
    finish: Callable[[Tensor], Tensor] = as_it_is
    fused: bool = False
    key: str | None = None
    says: str = ""
    stages: tuple[str, ...] = ()

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the context ``(batch, heads, queries, value_dim)``."""
        seen = self.seen(q.shape[-2])
        q, k = self.rotate(q), self.widen(self.rotate(k))
        v = (self.widen_v or self.widen)(v)
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale)
        scores = self.hide(q @ k.mT * self.scale, seen)
        return self.finish(self.weigh(scores) @ v)


RIGHT = Kind()
END = ("context", "output", "model")
KINDS = {
    "two heads swapped": Kind(finish=swapped, key="heads-permuted", says="head", stages=END),
    "kv heads tiled": Kind(
        widen=tiled, key="kv-heads-tiled", says="tile", stages=("k", "v", "raw_scores")
    ),
    "rotary interleaved": Kind(rotate=neighbours, key="rotary-pairing", says="", stages=QKV),
    "not scaled": Kind(scale=1.0, key="scale", says="head_dim", stages=SCORES),
    "scale 2 % off": Kind(scale=1.02 * SIZE**-0.5, key="scale", says="0.36", stages=SCORES),
    "causal one too wide": Kind(
        seen=one_too_wide, key="mask-shifted", says="1", stages=("scores",)
    ),
    "padding ignored": Kind(
        seen=padding_ignored, key="mask-missing", says="padding", stages=("scores",)
    ),
    "one padded key seen": Kind(seen=one_padded_seen, stages=("scores",)),
    "mask added as 0 and -1": Kind(
        hide=hidden_by_one, key="mask-as-bias", says="added", stages=("scores",)
    ),
    "dropout left on": Kind(weigh=dropping, key="dropout", says="0.1", stages=("weights",)),
    "weights times 1.03": Kind(
        weigh=too_much, key="weights-factor", says="1.03", stages=("weights", "context")
    ),
    "one token lost": Kind(finish=one_token_lost, stages=END),
}
"""The faults; two have no name among the explanations, but a place."""

GRADIENTS = ("grad.weights", "grad.scores", "grad.raw_scores", "grad.k", "grad.q")
STOPPED = {
    "weights detached": Kind(weigh=weights_stopped, key="gradient-stopped", stages=GRADIENTS),
    "values detached": Kind(
        widen_v=values_stopped, key="gradient-stopped", stages=("grad.v", "grad.input")
    ),
    "careless backward": Kind(weigh=careless, key="wrong-backward", stages=GRADIENTS[1:]),
}
"""Faults that no forward pass shows."""


def core(kind: Kind = RIGHT) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return the attention as a plain function."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return kind.attend(q, k, v)

    return attend


def in_bfloat16(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The right one in bfloat16, cast back."""
    return RIGHT.attend(q.bfloat16(), k.bfloat16(), v.bfloat16()).to(q.dtype)


FUSED = replace(RIGHT, fused=True)


def tensors(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return Gaussian q, k and v, before rotation."""
    generator = torch.Generator().manual_seed(seed)
    heads = (HEADS, KV_HEADS, KV_HEADS)
    q, k, v = (torch.randn(BATCH, h, LENGTH, SIZE, generator=generator) for h in heads)
    return q, k, v


class Layer(nn.Module):
    """Attention of one kind between a norm and a residual, and a feed-forward."""

    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.kind = kind
        self.norm, self.ff_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k, self.v = (nn.Linear(WIDTH, KV_HEADS * SIZE) for _ in range(2))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return x ``(batch, length, width)`` after the layer."""
        y = self.norm(x)
        q, k, v = (p(y).unflatten(-1, (-1, SIZE)).transpose(1, 2) for p in (self.q, self.k, self.v))
        x = x + self.out(self.kind.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ff_norm(x))))


class Stack(nn.Module):
    """Layers of the kinds given, the same weights every time."""

    def __init__(self, *kinds: Kind) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(kind) for kind in kinds)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                if parameter.ndim > 1:
                    parameter.copy_(noise * 1.4 * parameter.shape[1] ** -0.5)
                else:
                    parameter.copy_(noise * 0.1 + name.endswith("norm.weight"))

    def forward(self, x: Tensor) -> Tensor:
        """Return x after all layers."""
        for layer in self.layers:
            x = layer(x)
        return x


def stack(kind: Kind = RIGHT, *, at: int = 0, depth: int = 1) -> Stack:
    """Return a stack of right layers but for one."""
    return Stack(*(kind if i == at else RIGHT for i in range(depth))).eval()


def states(seed: int = 1) -> Tensor:
    """Return hidden states ``(batch, length, width)``."""
    return torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(seed))
