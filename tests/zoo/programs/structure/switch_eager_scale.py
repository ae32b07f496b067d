"""Character model whose attention can run on the fused kernel or step by step."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads, max_len, flash=True):
        super().__init__()
        self.heads = heads
        self.flash = flash
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("mask", torch.tril(torch.ones(1, 1, max_len, max_len, dtype=torch.bool)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS801
        else:
            s = q @ k.transpose(-2, -1) / math.sqrt(C)  # fault: AS801|AS301
            s = s.masked_fill(~self.mask[:, :, :T, :T], float("-inf"))
            y = s.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class CharModel(nn.Module):
    def __init__(self, chars=45, dim=36, heads=4, max_len=48, flash=True):
        super().__init__()
        self.emb = nn.Embedding(chars, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.norm = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads, max_len, flash)
        self.head = nn.Linear(dim, chars)

    def forward(self, idx):
        h = self.emb(idx) + self.pos(torch.arange(idx.size(1)))
        h = h + self.attn(self.norm(h))
        return self.head(h)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(210)
        return CharModel().eval()


def inputs():
    return (torch.randint(0, 45, (2, 16), generator=torch.Generator().manual_seed(211)),)
