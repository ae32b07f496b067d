"""Molecule property predictor: atoms attend to atoms, 1 marks a real atom."""

import torch
from torch import nn


class AtomAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.bond_bias = nn.Embedding(5, heads)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, bonds, atom_mask):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / (d // self.heads) ** 0.5
        logits = logits + self.bond_bias(bonds).permute(0, 3, 1, 2)
        logits = logits.masked_fill(atom_mask[:, None, None, :] == 0, -1e9)
        att = torch.softmax(logits, -1)
        return self.to_out(torch.einsum("bhij,bhjd->bihd", att, v).reshape(b, n, d))


class MoleculeNet(nn.Module):
    def __init__(self, elements=12, dim=32, heads=4, depth=2):
        super().__init__()
        self.atom = nn.Embedding(elements, dim)
        self.blocks = nn.ModuleList(AtomAttention(dim, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.readout = nn.Linear(dim, 1)

    def forward(self, atoms, bonds, atom_mask):
        x = self.atom(atoms)
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x), bonds, atom_mask)
        return (self.readout(x).squeeze(-1) * atom_mask).sum(1)


with torch.random.fork_rng():
    torch.manual_seed(15)
    model = MoleculeNet().eval()


def inputs():
    g = torch.Generator().manual_seed(15)
    mask = (torch.arange(9)[None] < torch.tensor([[8], [5], [3]])).long()
    return {
        "atoms": torch.randint(0, 12, (3, 9), generator=g),
        "bonds": torch.randint(0, 5, (3, 9, 9), generator=g),
        "atom_mask": mask,
    }


expect = {"padding": "atom_mask keep", "positions": False}
