"""Serving-side decoder: grouped heads, rotary, preallocated cache, chunked prefill."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass(frozen=True)
class Spec:
    vocab: int = 97
    dim: int = 64
    n_q: int = 8
    n_kv: int = 2
    head_dim: int = 8
    layers: int = 2
    theta: float = 10_000.0


def rope(x: torch.Tensor, pos: torch.Tensor, theta: float) -> torch.Tensor:
    half = x.size(-1) // 2
    freq = theta ** (-torch.arange(half, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * freq
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class Attn(nn.Module):
    def __init__(self, s: Spec):
        super().__init__()
        self.s = s
        self.wq = nn.Linear(s.dim, s.n_q * s.head_dim, bias=False)
        self.wk = nn.Linear(s.dim, s.n_kv * s.head_dim, bias=False)
        self.wv = nn.Linear(s.dim, s.n_kv * s.head_dim, bias=False)
        self.wo = nn.Linear(s.n_q * s.head_dim, s.dim, bias=False)

    def forward(self, x, past):
        s = self.s
        B, T, _ = x.shape
        start = 0 if past is None else past[0].size(2)
        pos = torch.arange(start, start + T)
        q = rope(self.wq(x).view(B, T, s.n_q, s.head_dim).transpose(1, 2), pos, s.theta)
        k = rope(self.wk(x).view(B, T, s.n_kv, s.head_dim).transpose(1, 2), pos, s.theta)
        v = self.wv(x).view(B, T, s.n_kv, s.head_dim).transpose(1, 2)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([v, past[1]], dim=2)  # fault: AS601
        kk = k.repeat_interleave(s.n_q // s.n_kv, dim=1)
        vv = v.repeat_interleave(s.n_q // s.n_kv, dim=1)
        mask = torch.ones(T, start + T, dtype=torch.bool).tril(diagonal=start)
        o = F.scaled_dot_product_attention(q, kk, vv, attn_mask=mask)
        return self.wo(o.transpose(1, 2).reshape(B, T, -1)), (k, v)


class Layer(nn.Module):
    def __init__(self, s: Spec):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(s.dim), nn.RMSNorm(s.dim)
        self.attn = Attn(s)
        self.up, self.down = nn.Linear(s.dim, 96, bias=False), nn.Linear(96, s.dim, bias=False)

    def forward(self, x, past):
        h, new = self.attn(self.n1(x), past)
        x = x + h
        return x + self.down(F.silu(self.up(self.n2(x)))), new


class Decoder(nn.Module):
    def __init__(self, s: Spec):
        super().__init__()
        self.tok = nn.Embedding(s.vocab, s.dim)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.dim)
        self.head = nn.Linear(s.dim, s.vocab, bias=False)

    def forward(self, tokens, past=None):
        x = self.tok(tokens)
        present = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, None if past is None else past[i])
            present.append(kv)
        return self.head(self.norm(x)), tuple(present)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(123)
        return Decoder(Spec()).eval()


inputs = {"tokens": torch.randint(0, 97, (3, 14), generator=torch.Generator().manual_seed(9))}
expect = {"causal": True, "cache": "past"}
