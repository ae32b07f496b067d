"""Transformer on 3D conformers: close atoms attend more."""
import torch
import torch.nn as nn


class DistanceAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.dh = h, d // h
        self.proj_in = nn.Linear(d, 3 * d)
        self.proj_out = nn.Linear(d, d)
        self.alpha = nn.Parameter(torch.linspace(0.5, 1.5, h))

    def forward(self, x, dist):
        b, n, d = x.shape
        q, k, v = self.proj_in(x).reshape(b, n, 3, self.h, self.dh).permute(2, 0, 3, 1, 4)
        s = torch.matmul(q, k.transpose(-2, -1)) / self.dh ** 0.5
        s = s + self.alpha.view(1, -1, 1, 1) * (1.0 / dist).unsqueeze(1)  # fault: AS802
        w = torch.softmax(s, -1)
        return self.proj_out(torch.matmul(w, v).transpose(1, 2).reshape(b, n, d))


class ConformerEnergy(nn.Module):
    def __init__(self, n_types=9, d=32, h=4, depth=2):
        super().__init__()
        self.atom = nn.Embedding(n_types, d)
        self.att = nn.ModuleList([DistanceAttention(d, h) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])
        self.energy = nn.Linear(d, 1)

    def forward(self, z, pos):
        dist = (pos[:, :, None] - pos[:, None]).norm(dim=-1)
        x = self.atom(z)
        for att, ln in zip(self.att, self.ln):
            x = x + att(ln(x), dist)
        return self.energy(x).sum((1, 2))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(57)
        return ConformerEnergy().eval()


g = torch.Generator().manual_seed(58)
inputs = (torch.randint(0, 9, (2, 7), generator=g), torch.randn(2, 7, 3, generator=g) * 2)
