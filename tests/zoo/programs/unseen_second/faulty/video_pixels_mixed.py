"""Video model: frames of the same pixel attend to each other, space folded into the batch."""

import torch
from torch import nn


class TemporalAttention(nn.Module):
    def __init__(self, c=24, heads=4, frames=8):
        super().__init__()
        self.h = heads
        self.norm = nn.GroupNorm(4, c)
        self.time = nn.Parameter(torch.randn(1, frames, c) * 0.3)
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, clip):
        b, f, c, hh, ww = clip.shape
        x = self.norm(clip.flatten(0, 1)).reshape(b * hh * ww, f, c)  # fault: AS103|AS102
        q, k, v = (s.view(-1, f, self.h, c // self.h).transpose(1, 2) for s in self.qkv(x + self.time[:, :f]).chunk(3, 2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, hh * ww, f, c)
        return clip + self.out(y).permute(0, 2, 3, 1).reshape(b, f, c, hh, ww)


torch.manual_seed(32)
model = TemporalAttention().eval()
inputs = torch.randn(2, 6, 24, 3, 5)
