"""A set encoder in which the points come first and the batch second; order of points is meaningless."""

import torch
from torch import nn


class SetBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        points, batch, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(points, batch, 3, self.heads, -1).unbind(2)
        scores = torch.einsum("pbhd,qbhd->bhpq", q, k) / (width / self.heads) ** 0.5
        mixed = torch.einsum("bhpq,qbhd->pbhd", scores.softmax(-1), v)
        return x + self.out(mixed.reshape(points, batch, width))


class PointSetEncoder(nn.Module):
    def __init__(self, coords=3, width=24, heads=4, depth=2):
        super().__init__()
        self.lift = nn.Linear(coords, width)
        self.blocks = nn.Sequential(*(SetBlock(width, heads) for _ in range(depth)))
        self.normals = nn.Linear(width, 3)

    def forward(self, points):
        return self.normals(self.blocks(self.lift(points)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(96)
        return PointSetEncoder().eval()


inputs = torch.randn(14, 5, 3, generator=torch.Generator().manual_seed(97))
expect = {"batch_axis": 1, "sequence_axis": 0, "positions": False}
# note: AS501
