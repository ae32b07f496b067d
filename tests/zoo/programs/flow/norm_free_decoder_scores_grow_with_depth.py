"""Norm-free decoder: eight layers on one residual stream."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads, generator):
        super().__init__()
        self.heads = heads

        def draw(gain):
            return nn.Parameter(torch.randn(dim, dim, generator=generator) * gain * dim**-0.5)

        self.wq, self.wk, self.wv, self.wo = draw(1.0), draw(1.0), draw(1.4), draw(1.4)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = ((x @ w).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = q @ k.mT * (c // self.heads) ** -0.5  # fault: AS303|AS302
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        weights = scores.softmax(dim=-1)  # fault: AS303|AS302
        return (weights @ v).transpose(1, 2).reshape(b, t, c) @ self.wo


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, heads=4, depth=8):
        super().__init__()
        gen = torch.Generator().manual_seed(120)
        self.embed = nn.Parameter(torch.randn(vocab, dim, generator=gen))
        self.layers = nn.ModuleList(Attention(dim, heads, gen) for _ in range(depth))

    def forward(self, ids):
        x = self.embed[ids]
        for layer in self.layers:
            x = x + layer(x)
        return x @ self.embed.mT


model = Decoder().eval()
inputs = {"ids": torch.randint(0, 50, (2, 16), generator=torch.Generator().manual_seed(121))}
expect = {"causal": True}
# also: AS902 AS403 AS904 AS405
