"""Retention: decayed causal products without a softmax, group norm after it."""

import torch
from torch import nn


class Retention(nn.Module):
    def __init__(self, d=36, heads=3):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.g, self.o = nn.Linear(d, d), nn.Linear(d, d)
        self.norm = nn.GroupNorm(heads, d)
        self.register_buffer("gamma", 1 - 2.0 ** (-3 - torch.arange(heads).float()))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        lag = torch.arange(t)[:, None] - torch.arange(t)[None]
        decay = torch.where(lag >= 0, self.gamma[:, None, None] ** lag.clamp(min=0), torch.zeros(()))
        y = ((q @ k.mT) * (d // self.h) ** -0.5 * decay) @ v
        y = self.norm(y.transpose(1, 2).reshape(b * t, d)).view(b, t, d)
        return x + self.o(torch.nn.functional.silu(self.g(x)) * y)


torch.manual_seed(31)
model = Retention().eval()
inputs = torch.randn(2, 16, 36)
expect = {"causal": True}
