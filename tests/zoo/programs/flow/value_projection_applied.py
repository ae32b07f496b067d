"""Decoder-side cross-attention, projections kept in a dict of layers."""

import math

import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleDict({n: nn.Linear(width, width) for n in ("query", "key", "value", "out")})

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).movedim(-2, -3)

    def forward(self, x, memory):
        q = self.split(self.layers["query"](x))
        k = self.split(self.layers["key"](memory))
        v = self.split(self.layers["value"](memory))
        scores = torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(q.size(-1))
        context = torch.einsum("...qk,...kd->...qd", torch.softmax(scores, -1), v)
        return x + self.layers["out"](context.movedim(-3, -2).flatten(-2))


with torch.random.fork_rng():
    torch.manual_seed(99)
    model = CrossAttention(36, 4).eval()

inputs = (
    torch.randn(2, 5, 36, generator=torch.Generator().manual_seed(99)),
    torch.randn(2, 8, 36, generator=torch.Generator().manual_seed(100)),
)
# note: AS501
