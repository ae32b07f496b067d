"""Scene graph encoder: objects attend along the given adjacency through the fused kernel."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    def __init__(self, in_dim=18, dim=24, heads=4):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(in_dim, dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm = nn.LayerNorm(dim)

    def forward(self, objects, adjacency):
        """adjacency (batch, n, n): 1 where object i may look at object j, self-loops included."""
        x = self.lift(objects)
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        mask = adjacency.unsqueeze(1).bool()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.norm(x + self.o(y.transpose(1, 2).flatten(2)))


with torch.random.fork_rng():
    torch.manual_seed(36)
    model = GraphAttention().eval()


def inputs():
    g = torch.Generator().manual_seed(36)
    adjacency = (torch.rand(3, 7, 7, generator=g) < 0.35).int() | torch.eye(7, dtype=torch.int)
    return {"objects": torch.randn(3, 7, 18, generator=g), "adjacency": adjacency}
