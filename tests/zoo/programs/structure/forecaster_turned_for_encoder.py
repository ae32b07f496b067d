"""Electricity load forecasting with a transformer encoder."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        t = torch.arange(max_len).unsqueeze(1)
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table = torch.zeros(1, max_len, d_model)
        table[0, :, 0::2] = torch.sin(t * rate)
        table[0, :, 1::2] = torch.cos(t * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[:, : x.size(1)]


class Forecaster(nn.Module):
    """series: (batch, time, features) -> forecast: (batch, features)"""

    def __init__(self, features=5, d_model=24, nhead=3, num_layers=2):
        super().__init__()
        self.inp = nn.Linear(features, d_model)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward=64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, features)

    def forward(self, series):
        h = self.pos(self.inp(series))
        h = self.encoder(h.transpose(0, 1)).transpose(0, 1)  # fault: AS102
        return self.head(h[:, -1])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(70)
        return Forecaster().eval()


def inputs():
    return torch.randn(6, 24, 5, generator=torch.Generator().manual_seed(71)).cumsum(1) * 0.2
