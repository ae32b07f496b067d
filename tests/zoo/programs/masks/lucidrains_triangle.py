"""x-attention block with a registered triangle, pre-norm, multi-query keys."""

import torch
from torch import nn, einsum


def exists(val):
    return val is not None


class Attention(nn.Module):
    def __init__(self, dim, dim_head=12, heads=3, causal=True):
        super().__init__()
        self.heads = heads
        self.scale = dim_head**-0.5
        self.causal = causal
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim_head * heads, bias=False)
        self.to_kv = nn.Linear(dim, dim_head * 2, bias=False)
        self.to_out = nn.Linear(dim_head * heads, dim, bias=False)

    def forward(self, x, mask=None):
        b, n, h = *x.shape[:2], self.heads
        x = self.norm(x)
        q = self.to_q(x).reshape(b, n, h, -1).transpose(1, 2) * self.scale
        k, v = self.to_kv(x).chunk(2, dim=-1)
        sim = einsum("b h i d, b j d -> b h i j", q, k)
        if exists(mask):
            sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
        if self.causal:
            causal_mask = torch.ones((n, n), dtype=torch.bool, device=x.device).triu(1)
            sim = sim.masked_fill(causal_mask, float("-inf"))
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


with torch.random.fork_rng():
    torch.manual_seed(17)
    model = Attention(dim=28).eval()

inputs = torch.randn(2, 10, 28, generator=torch.Generator().manual_seed(17))
