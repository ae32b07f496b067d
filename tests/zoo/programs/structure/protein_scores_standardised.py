"""Residue attention with standardised logits."""

import torch
import torch.nn.functional as F
from torch import nn


class ResidueAttention(nn.Module):
    def __init__(self, channels: int, heads: int):
        super().__init__()
        self.heads = heads
        self.size = channels // heads
        self.project = nn.ModuleDict({n: nn.Linear(channels, channels) for n in ("q", "k", "v", "o")})

    def forward(self, residues):
        samples, length, channels = residues.shape
        q, k, v = (
            self.project[n](residues).reshape(samples, length, self.heads, self.size).permute(0, 2, 1, 3)
            for n in ("q", "k", "v")
        )
        logits = torch.einsum("shid,shjd->shij", q, k)
        logits = (logits - logits.mean(0)) / (logits.std(0) + 1e-5)  # fault: AS305|AS102
        gathered = torch.einsum("shij,shjd->shid", F.softmax(logits, -1), v)
        gathered = gathered.permute(0, 2, 1, 3).reshape(samples, length, channels)
        return self.project["o"](gathered)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(200)
        return ResidueAttention(channels=27, heads=3)


inputs = torch.randn(5, 8, 27, generator=torch.Generator().manual_seed(201))

# also: AS501
