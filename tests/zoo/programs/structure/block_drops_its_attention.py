"""Pre-norm block of a point-cloud encoder: the attention's result is never added."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))

    def forward(self, x):
        h = self.norm1(x)
        mixed, _ = self.attention(h, h, h, need_weights=False)  # fault: AS903
        return x + self.feed(self.norm2(x))


class Cloud(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(3, 32)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(32, 5)

    def forward(self, points):
        x = self.lift(points)
        for block in self.blocks:
            x = block(x)
        return self.head(x.amax(1))


torch.manual_seed(4)
model = Cloud().eval()
inputs = torch.randn(3, 11, 3)
