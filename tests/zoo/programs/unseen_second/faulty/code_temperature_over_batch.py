"""Decoder with a content-dependent temperature on every query."""

import torch
from torch import nn


class TemperedAttention(nn.Module):
    def __init__(self, d=40, heads=4):
        super().__init__()
        self.h = heads
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.temp = nn.Linear(d, heads)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.mT * (d // self.h) ** -0.5
        heat = nn.functional.softplus(self.temp(x)).permute(0, 2, 1).unsqueeze(-1)
        s = s * heat
        s = s / s.abs().amax(dim=(0, 2, 3), keepdim=True)  # fault: AS305|AS102
        s = s.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        return self.o((torch.softmax(s, -1) @ v).transpose(1, 2).flatten(2))


class TemperedLM(nn.Module):
    def __init__(self, vocab=80, d=40):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(50, d)
        self.a, self.n = TemperedAttention(d), nn.LayerNorm(d)

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[: ids.size(1)]
        return (x + self.a(self.n(x))) @ self.e.weight.T


torch.manual_seed(29)
model = TemperedLM().eval()
inputs = torch.randint(0, 80, (4, 15))
expect = {"causal": True}
# also: AS201 AS102 AS301
