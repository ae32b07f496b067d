"""Graph transformer over road sensors; sensors only look at neighbours."""
import torch
import torch.nn as nn


class NeighbourAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.o = nn.Linear(d, d)

    def forward(self, h, adj):
        n, d = h.shape[-2:]
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
        q, k, v = split(self.q(h)), split(self.k(h)), split(self.v(h))
        logits = q @ k.mT / (d // self.heads) ** 0.5
        logits = logits.masked_fill(adj.unsqueeze(1) == 0, -1e9)  # fault: AS203
        return self.o((logits.softmax(-1) @ v).transpose(-2, -3).flatten(-2))


class RoadNet(nn.Module):
    def __init__(self, feats=3, d=24, heads=4, n=8, layers=2):
        super().__init__()
        self.inp = nn.Linear(feats, d)
        self.sensor = nn.Parameter(torch.randn(n, d) * 0.1)
        self.att = nn.ModuleList(NeighbourAttention(d, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.out = nn.Linear(d, 1)

    def forward(self, x, adj):
        h = self.inp(x) + self.sensor
        for a, n in zip(self.att, self.norm):
            h = h + a(n(h), adj)
        return self.out(h).squeeze(-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(91)
        return RoadNet().eval()


def inputs():
    g = torch.Generator().manual_seed(92)
    adj = torch.zeros(2, 8, 8, dtype=torch.long)
    for a, b in [(0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6)]:
        adj[:, a, b] = adj[:, b, a] = 1
    adj[1, 6, 7] = adj[1, 7, 6] = 1
    return {"x": torch.randn(2, 8, 3, generator=g), "adj": adj}
