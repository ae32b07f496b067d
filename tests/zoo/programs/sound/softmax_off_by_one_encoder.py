"""Encoder layer with softmax1: a head may say nothing."""

import math

import torch
import torch.nn as nn


def softmax_one(x, dim):
    m = x.amax(dim=dim, keepdim=True).clamp(min=0)
    e = torch.exp(x - m)
    return e / (torch.exp(-m) + e.sum(dim=dim, keepdim=True))


class QuietAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, pad_mask):
        B, L, D = x.shape
        qkv = self.in_proj(x).view(B, L, 3, self.n_heads, self.d_head).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        logits = q @ k.transpose(-1, -2) / math.sqrt(self.d_head)
        logits = logits.masked_fill(pad_mask[:, None, None, :], -1e9)
        out = softmax_one(logits, dim=-1) @ v
        return self.out_proj(out.transpose(1, 2).flatten(2))


class QuietLayer(nn.Module):
    def __init__(self, d_model=30, n_heads=3):
        super().__init__()
        self.attn = QuietAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model))

    def forward(self, x, pad_mask):
        x = self.norm1(x + self.attn(x, pad_mask))
        return self.norm2(x + self.ff(x))


with torch.random.fork_rng():
    torch.manual_seed(0)
    model = QuietLayer().eval()

inputs = {
    "x": torch.randn(3, 10, 30, generator=torch.Generator().manual_seed(6)),
    "pad_mask": torch.arange(10)[None] >= torch.tensor([10, 7, 4])[:, None],
}
expect = {"padding": "pad_mask drop"}
# note: AS501
