"""Molecules: bonds as 0.0 and 1.0, heads folded into the batch."""

import torch
from torch import nn


class Bonds(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, atoms, bonds):
        b, n, d = atoms.shape
        folded = (b, n, self.heads, d // self.heads)
        q, k, v = (
            each.reshape(folded).transpose(1, 2).flatten(0, 1)
            for each in self.qkv(atoms).chunk(3, -1)
        )
        scores = torch.bmm(q, k.mT) / (d // self.heads) ** 0.5
        bonds = bonds.repeat_interleave(self.heads, dim=0)
        scores = scores.masked_fill(bonds == 0, float("-inf"))
        y = torch.bmm(scores.softmax(-1), v).unflatten(0, (b, self.heads)).transpose(1, 2)
        return self.out(y.reshape(b, n, d))


class Molecules(nn.Module):
    def __init__(self, kinds=9, width=24):
        super().__init__()
        self.kinds = nn.Embedding(kinds, width)
        self.bonds, self.head = Bonds(width), nn.Linear(width, 2)

    def forward(self, kinds, bonds):
        x = self.kinds(kinds)
        return self.head(x + self.bonds(x, bonds))


torch.manual_seed(4)
model = Molecules().eval()
_bonds = (torch.rand(4, 7, 7) > 0.6) | torch.eye(7, dtype=torch.bool)
inputs = {"kinds": torch.randint(0, 9, (4, 7)), "bonds": (_bonds | _bonds.mT).float()}
