"""Fuses whatever cameras are online into one observation vector per robot."""

import torch
from torch import nn


class CameraPool(nn.Module):
    def __init__(self, feat=18, width=24, heads=3):
        super().__init__()
        self.encode = nn.Linear(feat, width)
        self.which = nn.Embedding(6, width)
        self.null = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.query = nn.Parameter(torch.randn(1, 2, width))
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.out = nn.Linear(2 * width, 5)

    def forward(self, frames, online):
        n = frames.size(0)
        tokens = self.encode(frames) + self.which.weight[: frames.size(1)]
        tokens = torch.cat([self.null.expand(n, -1, -1), tokens], dim=1)
        offline = torch.cat([torch.zeros(n, 1, dtype=torch.bool), ~online], dim=1)
        pooled, _ = self.attn(self.query.expand(n, -1, -1), tokens, tokens, key_padding_mask=offline)
        return self.out(pooled.flatten(1))


_g = torch.Generator().manual_seed(77)
torch.manual_seed(77)
model = CameraPool().eval()
online = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
inputs = {"frames": torch.randn(4, 5, 18, generator=_g), "online": online}
expect = {"padding": "online keep"}
