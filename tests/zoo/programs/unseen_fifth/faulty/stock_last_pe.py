"""Encoder over daily bars, sinusoidal days."""
import torch
import torch.nn as nn


def sinusoid(n, d):
    pos = torch.arange(n)[:, None]
    i = torch.arange(d)[None, :]
    angle = pos / torch.pow(10000, (2 * (i // 2)) / d)
    table = torch.zeros(n, d)
    table[:, 0::2] = angle[:, 0::2].sin()
    table[:, 1::2] = angle[:, 1::2].cos()
    return table[None]


class BarEncoder(nn.Module):
    def __init__(self, n_in=5, width=30, heads=3, n_layers=1, max_days=260):
        super().__init__()
        self.lin = nn.Linear(n_in, width)
        self.register_buffer("days", sinusoid(max_days, width), persistent=False)
        self.q = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))
        self.k = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))
        self.v = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))
        self.o = nn.ModuleList(nn.Linear(width, width) for _ in range(n_layers))
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(n_layers))
        self.heads = heads
        self.regress = nn.Linear(width, 1)

    def forward(self, bars):
        B, T, _ = bars.shape
        x = self.lin(bars)
        x = x + self.days[:, T]  # fault: AS502|AS501
        for q, k, v, o, ln in zip(self.q, self.k, self.v, self.o, self.ln):
            y = ln(x)
            Q = q(y).reshape(B, T, self.heads, -1)
            K = k(y).reshape(B, T, self.heads, -1)
            V = v(y).reshape(B, T, self.heads, -1)
            s = torch.einsum("bqhc,bkhc->bhqk", Q, K) / Q.shape[-1] ** 0.5
            z = torch.einsum("bhqk,bkhc->bqhc", s.softmax(-1), V).flatten(2)
            x = x + o(z)
        return self.regress(x[:, -1])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(88)
        return BarEncoder().eval()


inputs = (torch.randn(3, 14, 5, generator=torch.Generator().manual_seed(89)),)
