"""Parallel attention and feed-forward with sandwich norms (GPT-J meets CogView)."""

import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.pre, self.post_a, self.post_m = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.fused = nn.Linear(d, 3 * d + 2 * d)
        self.wo, self.down = nn.Linear(d, d), nn.Linear(2 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v, m = self.fused(self.pre(x)).split([d, d, d, 2 * d], -1)
        q, k, v = (s.view(b, t, self.h, -1).transpose(1, 2) for s in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        return x + self.post_a(self.wo(a)) + self.post_m(self.down(F.gelu(m)))


class LM(nn.Module):
    def __init__(self, v=48, d=40, h=5):
        super().__init__()
        self.e, self.p = nn.Embedding(v, d), nn.Embedding(32, d)
        self.b = nn.Sequential(Block(d, h), Block(d, h))

    def forward(self, ids):
        return self.b(self.e(ids) + self.p.weight[: ids.size(1)]) @ self.e.weight.T


torch.manual_seed(15)
model = LM().eval()
inputs = torch.randint(0, 48, (2, 17))
expect = {"causal": True}
