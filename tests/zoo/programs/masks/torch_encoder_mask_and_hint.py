"""Autoregressive forecaster: nn.TransformerEncoder run causally over a multivariate series."""

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, channels=5, width=24, heads=4, layers=2, horizon=2, max_len=64):
        super().__init__()
        self.inp = nn.Linear(channels, width)
        self.pos = nn.Parameter(0.02 * torch.randn(1, max_len, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, dim_feedforward=48, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.out = nn.Linear(width, channels * horizon)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(max_len))

    def forward(self, series):
        """series: (batch, time, channels); every step predicts the next `horizon` steps."""
        t = series.size(1)
        h = self.inp(series) + self.pos[:, :t]
        h = self.encoder(h, mask=self.mask[:t, :t], is_causal=True)
        return self.out(h)


def build():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Forecaster().eval()


model = build()
inputs = (torch.randn(4, 13, 5, generator=torch.Generator().manual_seed(8)),)
expect = {"causal": True, "batch_axis": 0, "sequence_axis": 1}
