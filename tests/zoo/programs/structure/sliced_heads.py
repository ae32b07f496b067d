"""Encoder layer for sensor windows that cuts the heads out of the projections by slices."""

import torch
import torch.nn as nn


class SlicedAttention(nn.Module):
    def __init__(self, width, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.head_width = width // n_heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(self.head_width * n_heads, width)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        outs = []
        for i in range(self.n_heads):
            lo, hi = i * self.head_width, (i + 1) * self.head_width
            qi, ki, vi = q[..., lo:hi], k[..., lo:hi], v[..., lo:hi]
            score = torch.einsum("btd,bsd->bts", qi, ki) / self.head_width**0.5
            outs.append(torch.einsum("bts,bsd->btd", score.softmax(-1), vi))
        return self.o(torch.cat(outs, -1))


class SensorLayer(nn.Module):
    def __init__(self, width=50, n_heads=5):
        super().__init__()
        self.inp = nn.Linear(3, width)
        self.attn = SlicedAttention(width, n_heads)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 2)

    def forward(self, window):
        h = self.inp(window)
        h = self.norm(h + self.attn(h))
        return self.out(h)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(150)
        return SensorLayer().eval()


def inputs():
    return {"window": torch.randn(4, 15, 3, generator=torch.Generator().manual_seed(151))}

# note: AS501
