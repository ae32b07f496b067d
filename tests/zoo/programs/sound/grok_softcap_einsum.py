"""Causal attention whose logits are squashed to +-30, all in einsum."""

import torch
from torch import einsum, nn


class CappedAttention(nn.Module):
    def __init__(self, dim, heads=5, dim_head=8, cap=30.0):
        super().__init__()
        self.scale = dim_head**-0.5
        self.cap = cap
        self.to_q = nn.Parameter(torch.randn(heads, dim, dim_head) * dim**-0.5)
        self.to_kv = nn.Parameter(torch.randn(2, heads, dim, dim_head) * dim**-0.5)
        self.to_out = nn.Parameter(torch.randn(heads, dim_head, dim) * (heads * dim_head) ** -0.5)

    def forward(self, x):
        n = x.shape[1]
        q = einsum("b n d, h d k -> b h n k", x, self.to_q) * self.scale
        k, v = einsum("b n d, s h d k -> s b h n k", x, self.to_kv)
        sim = einsum("b h i k, b h j k -> b h i j", q, k)
        sim = self.cap * (sim / self.cap).tanh()
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        attn = sim.masked_fill(future, float("-inf")).softmax(dim=-1)
        out = einsum("b h i j, b h j k -> b h i k", attn, v)
        return einsum("b h i k, h k d -> b i d", out, self.to_out)


with torch.random.fork_rng():
    torch.manual_seed(1)
    model = CappedAttention(36).eval()

inputs = torch.randn(2, 9, 36, generator=torch.Generator().manual_seed(2))
expect = {"causal": True, "softcap": 30.0}
