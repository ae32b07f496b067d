"""Graph transformer layer over dense adjacency, in training."""

import torch
from torch import nn
import torch.nn.functional as F


class GraphLayer(nn.Module):
    def __init__(self, features=18, hidden=32, heads=4, attn_dropout=0.25):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(features, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.lin_q, self.lin_k, self.lin_v = (nn.Linear(hidden, hidden) for _ in range(3))
        self.lin_o = nn.Linear(hidden, hidden)
        self.attn_dropout = nn.Dropout(attn_dropout)

    def forward(self, nodes, edges):
        h = self.lift(nodes)
        x = self.norm(h)
        q, k, v = (
            lin(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for lin in (self.lin_q, self.lin_k, self.lin_v)
        )
        e = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        alpha = F.softmax(e.masked_fill(~edges[:, None], float("-inf")), dim=-1)
        alpha = self.attn_dropout(alpha)
        return h + self.lin_o((alpha @ v).transpose(1, 2).flatten(2))


def make_graphs():
    gen = torch.Generator().manual_seed(141)
    edges = torch.rand(3, 10, 10, generator=gen) < 0.4
    edges = edges | edges.mT | torch.eye(10, dtype=torch.bool)
    return {"nodes": torch.randn(3, 10, 18, generator=gen), "edges": edges}


with torch.random.fork_rng():
    torch.manual_seed(141)
    model = GraphLayer().train()

inputs = make_graphs
# note: AS501
