"""Particles of a jet, attention by hand; the mask of empty slots meets the queries."""

import torch
from torch import nn


class Jet(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(4, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 2)

    def forward(self, particles, is_real):
        x = self.lift(particles)
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(is_real == 0, float("-inf"))  # fault: AS211
        x = torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v).flatten(2)
        return self.out(x).mean(1)


torch.manual_seed(0)
model = Jet().eval()
inputs = {
    "particles": torch.randn(2, 7, 4),
    "is_real": torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]),
}
