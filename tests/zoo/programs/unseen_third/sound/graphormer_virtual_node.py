"""Graphormer with a virtual node: distance bias, unreachable pairs -inf, padded nodes hidden, graph token reads out."""
import torch
import torch.nn as nn


class Graphormer(nn.Module):
    def __init__(self, d=32, h=4, layers=2, atoms=12, max_dist=6):
        super().__init__()
        self.h = h
        self.atom, self.deg, self.graph_token = nn.Embedding(atoms + 1, d, padding_idx=0), nn.Embedding(10, d, padding_idx=0), nn.Parameter(torch.randn(1, 1, d))
        self.spd, self.virtual = nn.Embedding(max_dist, h), nn.Embedding(1, h)
        self.qkv = nn.ModuleList([nn.Linear(d, 3 * d) for _ in range(layers)])
        self.o = nn.ModuleList([nn.Linear(d, d) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])

    def forward(self, atoms, degree, dist):
        b, n = atoms.shape
        x = self.atom(atoms) + self.deg(degree)
        x = torch.cat([self.graph_token.expand(b, -1, -1), x], 1)
        bias = torch.zeros(b, self.h, n + 1, n + 1)
        far = dist < 0
        bias[:, :, 1:, 1:] = self.spd(dist.clamp(min=0)).permute(0, 3, 1, 2).masked_fill(far[:, None], float("-inf"))
        t = self.virtual.weight.view(1, self.h, 1)
        bias[:, :, 1:, 0] = bias[:, :, 1:, 0] + t
        bias[:, :, 0, :] = bias[:, :, 0, :] + t
        pad = torch.cat([torch.zeros(b, 1, dtype=torch.bool), atoms == 0], 1)
        bias = bias.masked_fill(pad[:, None, None, :], float("-inf"))
        for qkv, o, ln in zip(self.qkv, self.o, self.ln):
            q, k, v = qkv(ln(x)).view(b, n + 1, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            a = (q @ k.mT * q.size(-1) ** -0.5 + bias).softmax(-1)
            x = x + o((a @ v).transpose(1, 2).flatten(2))
        return x[:, 0]


with torch.random.fork_rng():
    torch.manual_seed(39)
    model = Graphormer().eval()


def inputs():
    g = torch.Generator().manual_seed(39)
    atoms = torch.randint(1, 13, (3, 8), generator=g)
    atoms[0, 6:] = 0
    atoms[2, 5:] = 0
    dist = torch.randint(-1, 6, (3, 8, 8), generator=g)
    dist = torch.triu(dist, 1) + torch.triu(dist, 1).mT
    return {"atoms": atoms, "degree": torch.randint(1, 10, (3, 8), generator=g) * (atoms > 0), "dist": dist}


expect = {"padding": "atoms pad=0", "positions": False}
