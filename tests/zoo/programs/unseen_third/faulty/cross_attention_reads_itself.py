"""Perceiver-ish conditioning layer."""
import torch
from torch import nn, einsum


def exists(v):
    return v is not None


def default(v, d):
    return v if exists(v) else d


class Attention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=8):
        super().__init__()
        inner_dim = dim_head * heads
        context_dim = default(context_dim, query_dim)
        self.scale = dim_head**-0.5
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(context_dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, query_dim)

    def forward(self, x, context=None):
        h = self.heads
        q = self.to_q(x)
        context = default(x, context)
        k, v = self.to_kv(context).chunk(2, dim=-1)  # fault: AS107|AS208
        q, k, v = (t.unflatten(-1, (h, -1)).transpose(1, 2) for t in (q, k, v))
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Conditioner(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(5, dim))
        self.attn = Attention(dim, dim, heads=4)
        self.mix = Attention(dim, heads=2)

    def forward(self, data):
        x = self.latents.expand(data.shape[0], -1, -1)
        x = x + self.attn(x, context=data)
        return x + self.mix(x)


torch.manual_seed(0)
model = Conditioner().eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
