"""Universal-Transformer-like encoder: one block, applied six times."""

import math

import torch
from torch import nn


class LoopedEncoder(nn.Module):
    def __init__(self, vocab=64, d=36, heads=3, passes=6, places=40):
        super().__init__()
        self.heads, self.passes = heads, passes
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(places, d)
        self.step = nn.Embedding(passes, d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.grow = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        for layer in (self.out, self.grow[0], self.grow[2]):
            nn.init.orthogonal_(layer.weight, gain=1.6)

    def attend(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(d // self.heads)  # fault: AS303|AS302
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, d))  # fault: AS303|AS302

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for i in range(self.passes):
            x = x + self.step.weight[i]
            x = x + self.attend(x)
            x = x + self.grow(x)
        return x


with torch.random.fork_rng():
    torch.manual_seed(140)
    model = LoopedEncoder().eval()

inputs = {"ids": torch.randint(0, 64, (2, 14), generator=torch.Generator().manual_seed(140))}
# also: AS902 AS403 AS904 AS901
