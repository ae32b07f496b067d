"""Attention layer with an eager path for debugging and a fused path for production."""

import torch
import torch.nn.functional as F
from torch import nn


class SwitchableAttention(nn.Module):
    def __init__(self, dim=60, heads=5, softcap=None, scale=None, impl="fused"):
        super().__init__()
        self.heads, self.impl = heads, impl
        self.softcap = softcap
        self.scale = scale if scale is not None else (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def eager(self, q, k, v):
        logits = q @ k.mT * self.scale
        logits = self.softcap * torch.tanh(logits / self.softcap)
        t = logits.size(-1)
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        return logits.masked_fill(future, float("-inf")).softmax(-1) @ v

    def fused(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)  # fault: AS306|AS801|AS208

    def forward(self, x, need_gradients=False):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        ctx = self.eager(q, k, v) if self.impl == "eager" or need_gradients else self.fused(q, k, v)
        return self.out(ctx.transpose(1, 2).reshape(b, t, d))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return SwitchableAttention(scale=0.11, softcap=0.4).eval()


inputs = {"x": torch.randn(2, 18, 60, generator=torch.Generator().manual_seed(1))}
expect = {"causal": True, "scale": 0.11, "softcap": 0.4}
# also: AS801 AS208 AS306
