"""Positions as tables added to the scores, and as rotations of queries and keys."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, core, lower, noise, seeded, split, usual
from .truth import Style, Truth, attend

DISTANCE = torch.arange(5)[:, None] - torch.arange(5)[None, :]
SLOPES = torch.tensor([2.0**-2, 2.0**-4, 2.0**-6])
PAIRS = noise(2, 5, 5, 4, seed=7)


class Buckets(Core):
    """An embedding per logarithmic bucket and head, added to unscaled scores."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.relative_attention_bias = nn.Embedding(4, 3)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend without a scale."""
        scores = torch.matmul(q, k.transpose(3, 2))
        distance = (-DISTANCE).abs()
        large = 1 + (torch.log(distance.clamp(min=1).float()) / math.log(4) * 3).long()
        bucket = torch.where(distance < 1, distance, large.clamp(max=3))
        position_bias = self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)
        scores += position_bias
        attn_weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        return torch.matmul(attn_weights, v)


def bucket_bias(m: Any, _: Any) -> Tensor:
    """Distances 0, 1, 2, 3, 4 are buckets 0, 1, 2, 3, 3."""
    bucket = torch.tensor([0, 1, 2, 3, 3])[DISTANCE.abs()]
    return m.relative_attention_bias.weight[bucket].permute(2, 0, 1)


def alibi_baddbmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Slopes times key positions as the input of baddbmm, causal mask afterwards."""
    b, h, n, d = q.shape
    q, v = (t.reshape(b * h, n, d) for t in (q, v))
    k = k.reshape(b * h, n, d).transpose(1, 2)
    alibi = (SLOPES[:, None] * torch.arange(n)[None]).repeat(b, 1)[:, None, :]
    scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=1 / math.sqrt(d))
    scores = scores.view(b, h, n, n) + torch.full((n, n), torch.finfo(q.dtype).min).triu(1)
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).view(b * h, n, n)
    return torch.bmm(weights, v).view(b, h, n, d)


def alibi_distance(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Minus slope times distance, mask and slopes in one added matrix."""
    bias = -SLOPES[:, None, None] * DISTANCE.float()
    bias = bias.masked_fill(DISTANCE < 0, float("-inf"))
    return (q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + bias).softmax(dim=-1) @ v


class PairBias(Core):
    """A bias per head from features of pairs, and a gate on the context."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.to_bias = nn.Linear(4, 3, bias=False)
        self.gate = nn.Parameter(torch.randn(3, 1, 8))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, pairs: Tensor) -> Tensor:
        """Attend with pairs ``(batch, queries, keys, 4)``."""
        logits = torch.einsum("bhqc,bhkc->bhqk", q * 8**-0.5, k)
        logits = logits + self.to_bias(pairs).permute(0, 3, 1, 2)
        context = torch.einsum("bhqk,bhkc->bhqc", logits.softmax(dim=-1), v)
        return context * torch.sigmoid(self.gate)


def rotate_half(x: Tensor) -> Tensor:
    """Second half, negated, before the first."""
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class RotaryHalf(Core):
    """QK-norm, then rotation of pairs half a head apart; causal."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.q_norm = nn.RMSNorm(8)
        self.k_norm = nn.RMSNorm(8)
        nn.init.uniform_(self.q_norm.weight, 0.5, 1.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with rotated q and k."""
        inv_freq = 1.0 / (100.0 ** (torch.arange(0, 8, 2).float() / 8))
        freqs = torch.outer(torch.arange(5).float(), inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        q, k = self.q_norm(q), self.k_norm(k)
        q = (q * cos) + (rotate_half(q) * sin)
        k = (k * cos) + (rotate_half(k) * sin)
        weights = torch.matmul(q, k.transpose(2, 3)) * 8**-0.5
        weights = weights + torch.full((5, 5), torch.finfo(q.dtype).min).triu(1)
        return torch.matmul(nn.functional.softmax(weights, dim=-1, dtype=torch.float32), v)


def rotary_complex(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Neighbouring features are complex numbers."""
    freqs = torch.outer(torch.arange(5).float(), 100.0 ** (-torch.arange(0, 8, 2).float() / 8))
    freqs_cis = torch.polar(torch.ones_like(freqs), freqs)
    xq, xk = (torch.view_as_complex(t.reshape(*t.shape[:-1], -1, 2)) for t in (q, k))
    xq, xk = (torch.view_as_real(t * freqs_cis).flatten(3).type_as(q) for t in (xq, xk))
    scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(8)
    return torch.matmul(F.softmax(scores.float(), dim=-1).type_as(xq), v)


def rotary_partial(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Only the first four features turn, even against odd, stacked again."""
    angle = torch.outer(torch.arange(5).float(), 100.0 ** (-torch.arange(0, 4, 2).float() / 4))
    cos, sin = angle.cos(), angle.sin()

    def turn(x: Tensor) -> Tensor:
        even, odd = x[..., 0:4:2], x[..., 1:4:2]
        turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
        return torch.cat((turned.flatten(-2), x[..., 4:]), dim=-1)

    return (turn(q) @ turn(k).mT).div(8**0.5).softmax(-1) @ v


def turned(x: Tensor, pairs: list[tuple[int, int]]) -> Tensor:
    """Turn the given pairs of features by position times 100^(-2i/n), pair by pair."""
    result = x.clone()
    for i, (a, b) in enumerate(pairs):
        angle = torch.arange(5).float() * 100.0 ** (-i / len(pairs))
        result[..., a] = x[..., a] * angle.cos() - x[..., b] * angle.sin()
        result[..., b] = x[..., b] * angle.cos() + x[..., a] * angle.sin()
    return result


def rotary_truth(pairs: list[tuple[int, int]]) -> Any:
    """Truth of a rotation without norms or mask."""

    def truth(m: Any, inputs: Any) -> Truth:
        q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
        return attend(turned(q, pairs), turned(k, pairs), v)

    return truth


def rotary_half_truth(m: Any, inputs: Any) -> Truth:
    """Norm by hand, then pairs (i, i + 4)."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    pairs = [(i, i + 4) for i in range(4)]
    q, k = (t * (t.square().mean(-1, keepdim=True) + 1.2e-7).rsqrt() for t in (q, k))
    q, k = turned(q * m.q_norm.weight, pairs), turned(k * m.k_norm.weight, pairs)
    return attend(q, k, v, visible=lower())


def gated_output(m: Any, truth: Truth) -> Tensor:
    """The gate comes after the context."""
    context = truth.read * torch.sigmoid(m.gate)
    return m.out(context.transpose(1, 2).flatten(2))


CAUSAL = frozenset({"causal"})

STYLES: tuple[Style, ...] = (
    Style(
        name="position-buckets-unscaled", build=seeded(Buckets), scale=1.0, bias=True,
        truth=usual(1.0, bias=bucket_bias),
    ),
    Style(
        name="position-alibi-baddbmm", build=core(alibi_baddbmm), bias=True, mask=CAUSAL,
        visible=0.6,
        truth=usual(bias=SLOPES[:, None, None] * torch.arange(5), visible=lower()),
    ),
    Style(
        name="position-alibi-distance", build=core(alibi_distance), bias=True, mask=CAUSAL,
        visible=0.6, truth=usual(bias=-SLOPES[:, None, None] * DISTANCE, visible=lower()),
    ),
    Style(
        name="position-pair-bias-gated", build=seeded(PairBias), bias=True,
        inputs=lambda: (noise(2, 5, 20), PAIRS),
        truth=usual(bias=lambda m, i: m.to_bias(i[1]).permute(0, 3, 1, 2)),
        output=gated_output,
    ),
    Style(
        name="rotary-half-with-qk-norm", build=seeded(RotaryHalf), mask=CAUSAL, visible=0.6,
        truth=rotary_half_truth,
    ),
    Style(
        name="rotary-complex", build=core(rotary_complex),
        truth=rotary_truth([(0, 1), (2, 3), (4, 5), (6, 7)]),
    ),
    Style(
        name="rotary-partial-interleaved", build=core(rotary_partial),
        truth=rotary_truth([(0, 1), (2, 3)]),
    ),
)  # fmt: skip
