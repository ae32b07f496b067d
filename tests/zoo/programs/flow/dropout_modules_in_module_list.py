"""Deep text encoder with a dropout rate that grows with depth."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, drop):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = drop(torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.heads), -1))
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, d))


class Encoder(nn.Module):
    def __init__(self, vocab=95, dim=44, heads=4, depth=3, rate=0.2, max_len=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Parameter(torch.randn(max_len, dim) * 0.5)
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.attns = nn.ModuleList([Attention(dim, heads) for _ in range(depth)])
        self.drops = nn.ModuleList([nn.Dropout(rate * (i + 1) / depth) for i in range(depth)])

    def forward(self, tokens):
        x = self.embed(tokens) + self.place[: tokens.shape[1]]
        for norm, attn, drop in zip(self.norms, self.attns, self.drops):
            x = x + attn(norm(x), drop)
        return x


def model():
    with torch.random.fork_rng():
        torch.manual_seed(83)
        return Encoder().eval()


inputs = {"tokens": torch.randint(0, 95, (2, 12), generator=torch.Generator().manual_seed(83))}
