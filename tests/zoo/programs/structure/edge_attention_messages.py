"""Messages along a fixed number of edges, weighed by attention with edge features in the keys."""

import torch
from torch import nn


class EdgeAttention(nn.Module):
    def __init__(self, d=24, heads=3, edge=5):
        super().__init__()
        self.heads, self.dh = heads, d // heads
        self.to_q, self.to_k, self.to_v = (
            nn.Linear(d, d),
            nn.Linear(d + edge, d),
            nn.Linear(d + edge, d),
        )
        self.merge = nn.Linear(d, d)

    def forward(self, nodes, edges, neighbours):
        b, n, d = nodes.shape
        m = neighbours.shape[-1]
        near = torch.stack([x[i] for x, i in zip(nodes, neighbours)])
        near = torch.cat([near, edges], dim=-1)
        q = self.to_q(nodes).view(b, n, self.heads, 1, self.dh)
        k = self.to_k(near).view(b, n, m, self.heads, self.dh).transpose(2, 3)
        v = self.to_v(near).view(b, n, m, self.heads, self.dh).transpose(2, 3)
        w = torch.softmax((q * k).sum(-1) * self.dh**-0.5, dim=-1)
        out = (w.unsqueeze(-1) * v).sum(3)
        return nodes + self.merge(out.reshape(b, n, d))


torch.manual_seed(3)
model = EdgeAttention().eval()
_g = torch.Generator().manual_seed(3)
inputs = {
    "nodes": torch.randn(2, 11, 24, generator=_g),
    "edges": torch.randn(2, 11, 4, 5, generator=_g),
    "neighbours": torch.randint(0, 11, (2, 11, 4), generator=_g),
}
