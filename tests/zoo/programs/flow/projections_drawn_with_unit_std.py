"""Decoder block with its own initialisation pass."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q = self.wq(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        k = self.wk(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        v = self.wv(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / math.sqrt(c // self.n_heads)
        att = att + torch.full((t, t), -math.inf).triu(1)
        out = torch.softmax(att, dim=-1) @ v
        return self.wo(out.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, d_model=64, n_heads=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attn = Attention(d_model, n_heads)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 96), nn.GELU(), nn.Linear(96, d_model))
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=1.0)  # fault: AS901
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


with torch.random.fork_rng():
    torch.manual_seed(90)
    model = Block().eval()

inputs = torch.randn(2, 17, 64, generator=torch.Generator().manual_seed(90))
# also: AS302
