"""Space attention of a factorised video encoder: patches of one frame see each other."""

import torch
from torch import nn


class SpaceAttention(nn.Module):
    def __init__(self, c=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(c, c) for _ in range(4))

    def split(self, y):
        b, t, s, c = y.shape
        return y.view(b, t, s, self.heads, c // self.heads).permute(0, 1, 3, 2, 4)

    def forward(self, x):
        b, t, s, c = x.shape
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        a = (q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5).softmax(-1)
        return x + self.o((a @ v).permute(0, 1, 3, 2, 4).reshape(b, t, s, c))


torch.manual_seed(1)
model = SpaceAttention().eval()
inputs = torch.randn(2, 5, 7, 32, generator=torch.Generator().manual_seed(1))
