"""Heads as a list of small modules, concatenated."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(d, size, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        t = x.shape[1]
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(torch.tril(torch.ones(t, t)) == 0, float("-inf"))
        return scores.softmax(dim=-1) @ v


class MultiHead(nn.Module):
    def __init__(self, d=32, n=4):
        super().__init__()
        self.heads = nn.ModuleList([Head(d, d // n) for _ in range(n)])
        self.join = nn.Linear(d, d)

    def forward(self, x):
        return self.join(torch.cat([head(x) for head in self.heads], dim=-1))


with torch.random.fork_rng():
    torch.manual_seed(128)
    model = MultiHead().eval()

inputs = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(128))
expect = {"causal": True}
