"""Remaining-useful-life regression for turbofan engines."""
import torch
from torch import nn


class DropAttention(nn.Module):
    """Multi-head attention with heavy regularisation, the data set is tiny."""

    def __init__(self, emb, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.keys = nn.Linear(emb, emb)
        self.queries = nn.Linear(emb, emb)
        self.values = nn.Linear(emb, emb)
        self.att_drop = nn.Dropout(dropout)
        self.projection = nn.Linear(emb, emb)

    def forward(self, x):
        b, t, e = x.shape
        hd = e // self.num_heads
        queries = self.queries(x).reshape(b, t, self.num_heads, hd)
        keys = self.keys(x).reshape(b, t, self.num_heads, hd)
        values = self.values(x).reshape(b, t, self.num_heads, hd)
        energy = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / hd ** 0.5
        att = self.att_drop(energy.softmax(-1))
        out = torch.einsum("bhqk,bkhd->bqhd", att, values).reshape(b, t, e)
        return self.projection(out)


class RUL(nn.Module):
    def __init__(self, sensors=6, emb=24, heads=3, dropout=0.4, window=30):
        super().__init__()
        self.stem = nn.Linear(sensors, emb)
        self.pos = nn.Parameter(torch.randn(1, window, emb) * 0.02)
        self.norm1 = nn.LayerNorm(emb)
        self.att = DropAttention(emb, heads, dropout)
        self.norm2 = nn.LayerNorm(emb)
        self.ff = nn.Sequential(nn.Linear(emb, 48), nn.ReLU(), nn.Dropout(dropout), nn.Linear(48, emb))
        self.out = nn.Linear(emb, 1)

    def forward(self, x):
        x = self.stem(x) + self.pos[:, -x.size(1):]
        x = x + self.att(self.norm1(x))
        x = x + self.ff(self.norm2(x))
        return self.out(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(30)
        return RUL()


inputs = (torch.randn(4, 15, 6, generator=torch.Generator().manual_seed(29)),)
