"""Column attention for credit data with one small module per head."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, d, dh):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, dh), nn.Linear(d, dh), nn.Linear(d, dh)
        self.dh = dh

    def forward(self, x):
        s = self.q(x) @ self.k(x).transpose(1, 2) / self.dh ** .5
        return torch.softmax(s, -1) @ self.v(x)


class MultiHead(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.heads = nn.ModuleList([Head(d, d // n)] * n)  # fault: AS402
        self.mix = nn.Linear(d, d)

    def forward(self, x):
        return self.mix(torch.cat([h(x) for h in self.heads], dim=-1))


class CreditNet(nn.Module):
    def __init__(self, columns=7, d=20, n=4):
        super().__init__()
        self.w = nn.Parameter(torch.randn(columns, d) * .3)
        self.b = nn.Parameter(torch.randn(columns, d) * .3)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = MultiHead(d, n)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.clf = nn.Linear(columns * d, 2)

    def forward(self, table):
        t = table.unsqueeze(-1) * self.w + self.b
        t = t + self.att(self.norm1(t))
        t = t + self.mlp(self.norm2(t))
        return self.clf(t.flatten(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(19)
        return CreditNet().eval()


inputs = torch.randn(5, 7, generator=torch.Generator().manual_seed(20))
