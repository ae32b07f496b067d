"""Text-conditioned block of a diffusion UNet: self-attention, cross-attention, feed-forward."""

import torch
from torch import nn, einsum


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=64):
        super().__init__()
        inner_dim = dim_head * heads
        context_dim = default(context_dim, query_dim)
        self.scale = dim_head**-0.5
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_k = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_v = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, query_dim), nn.Dropout(0.0))

    def split(self, t):
        b, n, _ = t.shape
        t = t.view(b, n, self.heads, -1).permute(0, 2, 1, 3)
        return t.reshape(b * self.heads, n, -1)

    def merge(self, t):
        bh, n, d = t.shape
        t = t.view(bh // self.heads, self.heads, n, d).permute(0, 2, 1, 3)
        return t.reshape(bh // self.heads, n, self.heads * d)

    def forward(self, x, context=None):
        q = self.to_q(x)
        context = default(context, x)
        k = self.to_k(context)
        v = self.to_v(context)
        q, k, v = map(self.split, (q, k, v))
        sim = einsum("b i d, b j d -> b i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = einsum("b i j, b j d -> b i d", attn, v)
        return self.to_out(self.merge(out))


class BasicTransformerBlock(nn.Module):
    def __init__(self, dim, n_heads, d_head, context_dim):
        super().__init__()
        self.attn1 = CrossAttention(dim, heads=n_heads, dim_head=d_head)
        self.attn2 = CrossAttention(dim, context_dim, heads=n_heads, dim_head=d_head)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.norm3 = nn.LayerNorm(dim)

    def forward(self, x, context=None):
        x = self.attn1(self.norm1(x)) + x
        x = self.attn2(self.norm2(x)) + x  # fault: AS107
        x = self.ff(self.norm3(x)) + x
        return x


class SpatialTransformer(nn.Module):
    def __init__(self, channels, n_heads, d_head, context_dim):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.block = BasicTransformerBlock(channels, n_heads, d_head, context_dim)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        y = self.block(y, context=context)
        y = y.transpose(1, 2).reshape(b, c, h, w)
        return self.proj_out(y) + x


def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return SpatialTransformer(channels=24, n_heads=3, d_head=10, context_dim=24).eval()


def inputs():
    g = torch.Generator().manual_seed(4)
    return {"x": torch.randn(2, 24, 5, 4, generator=g), "context": torch.randn(2, 9, 24, generator=g)}

# also: AS208
