"""Graphormer-like encoder on dense batches: distance bias, edges mask, padded nodes."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GraphAttention(nn.Module):
    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.heads = heads
        self.lin_q, self.lin_k = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.lin_v, self.lin_o = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, bias: Tensor, node_mask: Tensor) -> Tensor:
        B, N, D = x.shape
        Q = self.lin_q(x).view(B, N, self.heads, -1)
        K = self.lin_k(x).view(B, N, self.heads, -1)
        V = self.lin_v(x).view(B, N, self.heads, -1)
        alpha = torch.einsum("bihd,bjhd->bhij", Q, K) / (D // self.heads) ** 0.5
        alpha = alpha + bias
        alpha = alpha.masked_fill(~node_mask[:, None, None, :], -1e9)
        alpha = F.softmax(alpha, dim=-1)
        out = torch.einsum("bhij,bjhd->bihd", alpha, V).reshape(B, N, D)
        return self.lin_o(out)


class GraphTransformer(nn.Module):
    def __init__(self, atoms=12, hidden=36, heads=6, layers=2, max_dist=5):
        super().__init__()
        self.atom = nn.Embedding(atoms, hidden)
        self.degree = nn.Embedding(8, hidden)
        self.spatial = nn.Embedding(max_dist + 2, heads)
        self.max_dist = max_dist
        self.att = nn.ModuleList(GraphAttention(hidden, heads) for _ in range(layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, hidden)) for _ in range(layers)
        )
        self.readout = nn.Linear(hidden, 1)

    def forward(self, z: Tensor, adj: Tensor, node_mask: Tensor) -> Tensor:
        dist = self.hops(adj)
        bias = self.spatial(dist).permute(0, 3, 1, 2)
        h = self.atom(z) + self.degree(adj.sum(-1).long().clamp(max=7))
        for att, n1, n2, ffn in zip(self.att, self.n1, self.n2, self.ffn):
            h = h + att(n1(h), bias, node_mask)
            h = h + ffn(n2(h))
        keep = node_mask.unsqueeze(-1).float()
        return self.readout((h * keep).sum(1) / keep.sum(1)).squeeze(-1)

    def hops(self, adj: Tensor) -> Tensor:
        n = adj.size(-1)
        dist = torch.full_like(adj, self.max_dist + 1)
        reach = torch.eye(n).expand_as(adj)
        for d in range(self.max_dist + 1):
            dist = torch.where((reach > 0) & (dist > self.max_dist), torch.full_like(dist, d), dist)
            reach = reach @ adj
        return dist.long()


def molecules():
    g = torch.Generator().manual_seed(8)
    sizes = torch.tensor([11, 6, 9, 4])
    mask = torch.arange(11)[None] < sizes[:, None]
    z = torch.randint(1, 12, (4, 11), generator=g) * mask
    a = torch.diag(torch.ones(10), 1).expand(4, 11, 11).clone()
    a[:, 0, 3] = 1
    a = (a + a.mT) * mask[:, :, None] * mask[:, None, :]
    return {"z": z, "adj": a, "node_mask": mask}


inputs = molecules
torch.manual_seed(40)
model = GraphTransformer().eval()
expect = {"padding": "node_mask keep", "causal": False, "positions": False}
