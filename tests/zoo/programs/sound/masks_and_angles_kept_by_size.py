"""Language model that keeps its causal mask, its rotary table, and its last weights to look at."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self._causal, self._angles, self.last = None, {}, None

    def causal(self, n):
        if self._causal is None or len(self._causal) < n:
            self._causal = torch.ones(n, n, dtype=torch.bool).tril()
        return self._causal[:n, :n]

    def turned(self, x):
        n, d = x.shape[-2:]
        if n not in self._angles:
            speeds = 10000 ** (-torch.arange(0, d, 2) / d)
            self._angles[n] = torch.outer(torch.arange(n), speeds)
        a = torch.cat([self._angles[n]] * 2, -1)
        half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
        return x * a.cos() + half * a.sin()

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = self.turned(q) @ self.turned(k).mT / q.shape[-1] ** 0.5
        self.last = scores.masked_fill(~self.causal(n), float("-inf")).softmax(-1)
        return x + self.out((self.last @ v).transpose(1, 2).reshape(b, n, c))


class CausalModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 32)
        self.attention = Attention()
        self.head = nn.Linear(32, 40)

    def forward(self, ids):
        return self.head(self.attention(self.embed(ids)))


torch.manual_seed(0)
model = CausalModel().eval()
inputs = torch.randint(0, 40, (2, 9))
