"""Point cloud classifier: coordinates come in, and a small layer makes positions of them."""

import torch
from torch import nn


class Points(nn.Module):
    def __init__(self, width=24, heads=3, classes=5):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(3, width)
        self.pos_embed = nn.Sequential(nn.Linear(3, width), nn.GELU(), nn.Linear(width, width))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, points):
        x = self.lift(points) + self.pos_embed(points)
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5, dim=-1)
        x = x + self.out((a @ v).transpose(1, 2).flatten(2))
        return self.head(x.amax(1))


with torch.random.fork_rng():
    torch.manual_seed(45)
    model = Points().eval()
inputs = torch.randn(3, 16, 3, generator=torch.Generator().manual_seed(45))
