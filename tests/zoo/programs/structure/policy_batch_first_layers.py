"""Policy over action chunks, (steps, batch, width) like the recordings."""

import torch
from torch import nn


class PolicyBlock(nn.Module):
    """actions: (steps, batch, width)."""

    def __init__(self, width, heads):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)  # fault: AS102
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, actions):
        y = self.norms[0](actions)
        actions = actions + self.self_attention(y, y, y, need_weights=False)[0]  # fault: AS102
        return actions + self.mlp(self.norms[1](actions))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(360)
        return PolicyBlock(width=30, heads=5).eval()


def inputs():
    g = torch.Generator().manual_seed(361)
    return {"actions": torch.randn(6, 4, 30, generator=g)}


expect = {"batch_axis": 1, "sequence_axis": 0}

# also: AS501
