"""Time-series forecaster: post-norm layers on top of a linear patch embedding."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))
        self.norm2 = nn.LayerNorm(d)

    def forward(self, x):
        a, _ = self.attn(x, x, x, need_weights=False)
        x = self.norm1(a)  # fault: AS904
        return self.norm2(x + self.ff(x))


class Forecaster(nn.Module):
    def __init__(self, patch=6, d=24, heads=4, depth=3, horizon=5, places=32):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, d)
        self.pos = nn.Parameter(torch.randn(1, places, d) * 0.5)
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(depth))
        self.out = nn.Linear(d, horizon)

    def forward(self, series):
        x = self.embed(series.unfold(1, self.patch, self.patch))
        x = x + self.pos[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.out(x[:, -1])


with torch.random.fork_rng():
    torch.manual_seed(105)
    model = Forecaster().eval()

inputs = {"series": torch.randn(3, 66, generator=torch.Generator().manual_seed(105))}
