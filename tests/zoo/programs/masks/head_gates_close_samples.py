"""Gated heads: the gate is unsqueezed at the wrong end, so that it opens samples."""

import torch
from torch import nn


class GatedHeads(nn.Module):
    def __init__(self, width=40, heads=5):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, width * 3)
        self.gate = nn.Parameter(torch.linspace(-2.0, 2.0, heads))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
        context = weights @ v
        context = context * self.gate.sigmoid().reshape(-1, 1, 1, 1)  # fault: AS211
        return x + self.out(context.transpose(1, 2).flatten(2))


model = GatedHeads().eval()
inputs = torch.randn(5, 6, 40)
