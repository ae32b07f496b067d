"""Attentive neural process: observed points are keys; points to predict only ask."""

import torch
from torch import nn


class PointMixer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(3, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mean = nn.Linear(width, 1)

    def forward(self, points, target_mask):
        shown = points.masked_fill(target_mask[..., None] & torch.tensor([False, False, True]), 0.0)
        x = self.embed(shown)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(target_mask[:, None, None, :], -1e9).softmax(-1)
        return self.mean(x + (weights @ v).transpose(1, 2).flatten(2))


torch.manual_seed(1)
model = PointMixer().eval()
inputs = {"points": torch.randn(3, 9, 3), "target_mask": torch.rand(3, 9) < 0.4}
