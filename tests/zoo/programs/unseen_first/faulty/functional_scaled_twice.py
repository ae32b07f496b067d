"""Attention as plain functions over a dictionary of weights, in a thin module."""
import math

import torch


def init(seed, width, heads):
    g = torch.Generator().manual_seed(seed)
    names = ("wq", "wk", "wv", "wo")
    return {n: torch.randn(width, width, generator=g) * 1.6 / math.sqrt(width) for n in names}


def attend(x, p, heads):
    bs, n, width = x.shape
    hd = width // heads
    q = torch.matmul(x, p["wq"]).reshape(bs, n, heads, hd) / math.sqrt(hd)  # fault: AS301
    k = torch.matmul(x, p["wk"]).reshape(bs, n, heads, hd)
    v = torch.matmul(x, p["wv"]).reshape(bs, n, heads, hd)
    s = torch.einsum("bqhd,bkhd->bhqk", q, k)
    s = s / math.sqrt(hd)  # fault: AS301
    s = s - s.amax(dim=-1, keepdim=True)
    e = torch.exp(s)
    a = e / e.sum(dim=-1, keepdim=True)
    o = torch.einsum("bhqk,bkhd->bqhd", a, v).reshape(bs, n, width)
    return torch.matmul(o, p["wo"])


class Functional(torch.nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.heads = heads
        for name, w in init(0, width, heads).items():
            self.register_parameter(name, torch.nn.Parameter(w))

    def forward(self, x):
        return attend(x, dict(self.named_parameters()), self.heads)


model = Functional()
inputs = torch.randn(3, 11, 64, generator=torch.Generator().manual_seed(5))
expect = {"scale": 0.25}
