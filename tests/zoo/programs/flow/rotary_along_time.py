"""Attention with a rotary module that finds its positions from the tensor."""

import torch
from torch import nn, einsum


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000, seq_before_head_dim=True):
        super().__init__()
        self.register_buffer("freqs", 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim))
        self.seq_dim = -3 if seq_before_head_dim else -2

    def rotate_queries_or_keys(self, t):
        seq = torch.arange(t.shape[self.seq_dim], device=t.device, dtype=t.dtype)
        freqs = einsum("i, j -> i j", seq, self.freqs).repeat_interleave(2, dim=-1)
        if self.seq_dim == -3:
            freqs = freqs[:, None]
        a, b = t.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = torch.stack((-b, a), dim=-1).flatten(-2)
        return t * freqs.cos() + rotated * freqs.sin()


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=10):
        super().__init__()
        self.heads = heads
        self.scale = dim_head**-0.5
        self.rotary_emb = RotaryEmbedding(dim_head, seq_before_head_dim=False)
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        q = self.rotary_emb.rotate_queries_or_keys(q)
        k = self.rotary_emb.rotate_queries_or_keys(k)
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(40)
    model = Attention(36).eval()

inputs = torch.randn(2, 12, 36, generator=torch.Generator().manual_seed(40))
