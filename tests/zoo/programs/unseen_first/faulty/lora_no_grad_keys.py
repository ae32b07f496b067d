"""Pretrained-like attention with low-rank adapters whose second factor starts at zero."""
import torch
import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, d_in, d_out, r=3):
        super().__init__()
        self.base = nn.Linear(d_in, d_out)
        self.A = nn.Parameter(torch.randn(r, d_in) / d_in**0.5)
        self.B = nn.Parameter(torch.zeros(d_out, r))
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + x @ self.A.t() @ self.B.t()


class AdapterAttention(nn.Module):
    def __init__(self, d=40, h=5):
        super().__init__()
        self.h = h
        self.q, self.v = LoRALinear(d, d), LoRALinear(d, d)
        self.k, self.o = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        with torch.no_grad():  # fault: AS902
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # fault: AS902
            scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
            weights = scores.softmax(-1)  # fault: AS902
        y = weights @ v
        return self.o(y.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(29)
model = AdapterAttention().eval()
inputs = {"x": torch.randn(2, 12, 40)}
expect = {"causal": True}
