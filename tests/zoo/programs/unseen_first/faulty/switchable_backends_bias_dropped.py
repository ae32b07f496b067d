"""Attention whose backend is a constructor choice: "eager" or "sdpa"."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def eager(q, k, v, bias):
    s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1))  # fault: AS903|AS208|AS801
    return torch.matmul(s.softmax(-1), v)


def sdpa(q, k, v, bias):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


BACKENDS = {"eager": eager, "sdpa": sdpa}


class BiasedAttention(nn.Module):
    def __init__(self, dim, heads, backend):
        super().__init__()
        self.heads, self.attend = heads, BACKENDS[backend]
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.decay = nn.Parameter(torch.linspace(0.05, 0.4, heads))

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        gap = (torch.arange(n)[:, None] - torch.arange(n)[None]).abs()
        y = self.attend(q, k, v, -self.decay[:, None, None] * gap)  # fault: AS903|AS208|AS801
        return self.out(y.transpose(1, 2).flatten(2))


class Stack(nn.Module):
    def __init__(self, backend="eager"):
        super().__init__()
        self.inp = nn.Linear(8, 40)
        self.layers = nn.ModuleList([BiasedAttention(40, 5, backend), BiasedAttention(40, 5, "sdpa")])

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = x + layer(x)
        return x


torch.manual_seed(6)
model = Stack().eval()
inputs = torch.randn(3, 17, 8)
