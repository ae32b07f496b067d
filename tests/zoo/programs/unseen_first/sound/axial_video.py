"""Axial attention over time and over space for short clips."""
import torch
import torch.nn.functional as F
from torch import nn


class Axis(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.norm = h, nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        """x: (rows, length, d)"""
        r, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(r, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(r, n, d))


class ClipEncoder(nn.Module):
    def __init__(self, d=28, h=2, frames=5, cells=9):
        super().__init__()
        self.inp = nn.Linear(6, d)
        self.when, self.place = nn.Parameter(torch.randn(frames, 1, d) * 0.1), nn.Parameter(torch.randn(cells, d) * 0.1)
        self.over_time, self.over_space = Axis(d, h), Axis(d, h)

    def forward(self, clip):
        b, t, s, _ = clip.shape
        x = self.inp(clip) + self.when[:t] + self.place[:s]
        y = x.transpose(1, 2).reshape(b * s, t, -1)
        x = x + self.over_time(y).view(b, s, t, -1).transpose(1, 2)
        y = x.reshape(b * t, s, -1)
        return x + self.over_space(y).view(b, t, s, -1)


torch.manual_seed(36)
model = ClipEncoder().eval()
inputs = {"clip": torch.randn(3, 5, 9, 6)}
