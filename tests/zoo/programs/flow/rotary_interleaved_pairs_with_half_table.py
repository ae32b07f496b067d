"""Protein encoder: rotary positions on neighbouring channel pairs, mean-pooled."""

import torch
from torch import nn


def angles(length, dim):
    inv = 1.0 / (10000 ** (torch.arange(0, dim, 2) / dim))
    a = torch.outer(torch.arange(length), inv)
    return torch.cat([a, a], dim=-1)  # fault: AS503


def every_two(x):
    out = torch.empty_like(x)
    out[..., ::2] = -x[..., 1::2]
    out[..., 1::2] = x[..., ::2]
    return out


def turn(x):
    a = angles(x.shape[-2], x.shape[-1]).to(x)
    return x * a.cos() + every_two(x) * a.sin()  # fault: AS503


class ProteinEncoder(nn.Module):
    def __init__(self, residues=25, dim=32, heads=2, depth=2):
        super().__init__()
        self.embed = nn.Embedding(residues, dim)
        self.heads = heads
        self.in_proj = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(depth))
        self.out_proj = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, residues):
        x = self.embed(residues)
        n, length, dim = x.shape
        for in_proj, out_proj, norm in zip(self.in_proj, self.out_proj, self.norms):
            packed = in_proj(norm(x)).view(n, length, 3, self.heads, dim // self.heads)
            q, k, v = packed.permute(2, 0, 3, 1, 4)
            logits = turn(q) @ turn(k).mT / (dim // self.heads) ** 0.5
            x = x + out_proj((logits.softmax(-1) @ v).transpose(1, 2).reshape(n, length, dim))
        return x.mean(1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return ProteinEncoder().eval()


inputs = {"residues": torch.randint(0, 25, (3, 20), generator=torch.Generator().manual_seed(4))}
