"""Set attention block that also returns its attention map for plots."""

import torch
from torch import nn


class MapAttention(nn.Module):
    def __init__(self, dim, heads, drop=0.2):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.fc = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

    def forward(self, x, return_attention=True):
        b, n, d = x.shape
        q, k, v = [
            f(x).reshape(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3)
            for f in (self.q, self.k, self.v)
        ]
        energy = q.matmul(k.permute(0, 1, 3, 2)).div((d // self.heads) ** 0.5)
        attention = energy.softmax(dim=-1)
        z = self.drop(attention).matmul(v)
        z = self.fc(z.permute(0, 2, 1, 3).reshape(b, n, d))
        attention = torch.softmax(attention, dim=-1)  # fault: AS803
        return (z, attention) if return_attention else z  # fault: AS803


with torch.random.fork_rng():
    torch.manual_seed(55)
    model = MapAttention(30, 3).eval()
inputs = (torch.randn(4, 8, 30, generator=torch.Generator().manual_seed(0)),)
