"""LoRA on the query and value projections, before the first step."""

import torch
from torch import nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) / base.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.k = alpha / r

    def forward(self, x):
        return self.base(x) + self.k * (x @ self.A.T @ self.B.T)


class Attention(nn.Module):
    def __init__(self, d=36, heads=6):
        super().__init__()
        self.heads = heads
        self.wq, self.wv = LoRALinear(nn.Linear(d, d)), LoRALinear(nn.Linear(d, d))
        self.wk, self.wo = nn.Linear(d, d).requires_grad_(False), nn.Linear(d, d).requires_grad_(False)

    def forward(self, x):
        q, k, v = (f(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.p = nn.Embedding(44, 36), nn.Embedding(20, 36)
        self.a, self.n = Attention(), nn.LayerNorm(36)

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[: ids.size(1)]
        return (x + self.a(self.n(x))) @ self.e.weight.T


torch.manual_seed(14)
model = LM().eval()
inputs = torch.randint(0, 44, (3, 12))
expect = {"causal": True}
