"""Tree encoder: nodes attend to their ancestors, one attention mask per tree, nn.MultiheadAttention."""

import torch
from torch import nn


class TreeEncoder(nn.Module):
    def __init__(self, kinds=21, dim=24, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(kinds, dim)
        self.depth = nn.Embedding(10, dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, kinds, depths, blocked):
        """blocked (batch, n, n): True where a node must not look."""
        x = self.embed(kinds) + self.depth(depths)
        y, _ = self.attn(x, x, x, attn_mask=blocked.repeat(self.heads, 1, 1), need_weights=False)  # fault: AS211
        return self.norm(x + y)


# also: AS102
with torch.random.fork_rng():
    torch.manual_seed(56)
    model = TreeEncoder().eval()


def inputs():
    g = torch.Generator().manual_seed(56)
    n = 8
    visible = torch.eye(n, dtype=torch.bool).repeat(3, 1, 1)
    depths = torch.zeros(3, n, dtype=torch.long)
    for b in range(3):
        for i in range(1, n):
            parent = int(torch.randint(0, i, (1,), generator=g))
            visible[b, i] |= visible[b, parent]
            depths[b, i] = depths[b, parent] + 1
    return {"kinds": torch.randint(0, 21, (3, n), generator=g), "depths": depths, "blocked": ~visible}
