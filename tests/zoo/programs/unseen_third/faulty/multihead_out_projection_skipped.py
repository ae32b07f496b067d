"""Encoder for financial time series; heads live in one projection, an output projection follows."""
import torch
import torch.nn as nn


class MultiHead(nn.Module):
    def __init__(self, in_dim, heads, **kwargs):
        super().__init__()
        self.heads = heads
        self.toqueries = nn.Linear(in_dim, in_dim, bias=False)
        self.tokeys = nn.Linear(in_dim, in_dim, bias=False)
        self.tovalues = nn.Linear(in_dim, in_dim, bias=False)
        self.unifyheads = nn.Linear(in_dim, in_dim)
        self.attn_dropout = nn.Dropout(kwargs.get("dropout", 0.0))

    def forward(self, x):
        b, t, e = x.size()
        h, s = self.heads, e // self.heads
        keys = self.tokeys(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        queries = self.toqueries(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        values = self.tovalues(x).view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        queries, keys = queries / s**0.25, keys / s**0.25
        dot = self.attn_dropout(torch.softmax(torch.bmm(queries, keys.transpose(1, 2)), dim=2))
        out = torch.bmm(dot, values).view(b, h, t, s).transpose(1, 2).contiguous().view(b, t, h * s)
        return out  # fault: AS903


class Stocks(nn.Module):
    def __init__(self, f=6, d=32):
        super().__init__()
        self.inp, self.time = nn.Linear(f, d), nn.Embedding(64, d)
        self.att, self.norm, self.fc = MultiHead(d, 4), nn.LayerNorm(d), nn.Linear(d, 1)

    def forward(self, x):
        x = self.inp(x) + self.time(torch.arange(x.size(1), device=x.device))
        return self.fc(self.norm(x + self.att(x))[:, -1])


# also: AS902
with torch.random.fork_rng():
    torch.manual_seed(106)
    model = Stocks().eval()
inputs = torch.randn(3, 24, 6, generator=torch.Generator().manual_seed(106))
