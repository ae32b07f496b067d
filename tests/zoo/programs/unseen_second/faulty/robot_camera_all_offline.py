"""Fuses whatever cameras are online into one observation vector per robot."""

import torch
from torch import nn


class CameraPool(nn.Module):
    def __init__(self, feat=18, width=24, heads=3):
        super().__init__()
        self.encode = nn.Linear(feat, width)
        self.which = nn.Embedding(6, width)
        self.query = nn.Parameter(torch.randn(1, 2, width))
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.out = nn.Linear(2 * width, 5)

    def forward(self, frames, online):
        n = frames.size(0)
        tokens = self.encode(frames) + self.which.weight[: frames.size(1)]
        offline = ~online
        pooled, _ = self.attn(self.query.expand(n, -1, -1), tokens, tokens, key_padding_mask=offline)  # fault: AS203|AS802
        return self.out(pooled.flatten(1))


_g = torch.Generator().manual_seed(77)
torch.manual_seed(77)
model = CameraPool().eval()
online = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]).bool()
inputs = {"frames": torch.randn(4, 5, 18, generator=_g), "online": online}
expect = {"padding": "online keep"}
# also: AS802 AS203 AS902
