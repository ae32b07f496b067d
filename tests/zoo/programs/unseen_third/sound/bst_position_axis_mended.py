"""Transformer click model: positions added to the behaviour sequence (time first, as nn.MultiheadAttention wants)."""
import torch
import torch.nn as nn


class PosEmb(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, 1, d))

    def forward(self, x):
        return x.transpose(0, 1) + self.table[: x.size(1)]


class ClickModel(nn.Module):
    def __init__(self, items=66, d=28, heads=4):
        super().__init__()
        self.emb = nn.Embedding(items, d)
        self.pos = PosEmb(24, d)
        self.mha = nn.MultiheadAttention(d, heads)
        self.ln = nn.LayerNorm(d)
        self.out = nn.Linear(d, 1)

    def forward(self, clicks):
        x = self.pos(self.emb(clicks))
        y, _ = self.mha(x, x, x, need_weights=False)
        x = self.ln(x + y)
        return self.out(x.mean(0)).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(73)
    model = ClickModel().eval()
inputs = (torch.randint(0, 66, (5, 9), generator=torch.Generator().manual_seed(73)),)
