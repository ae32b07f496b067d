"""Influenza forecaster with a batch-first encoder and tutorial positions, https://github.com/KasperGroesLudvigsen/influenza_transformer/issues/9."""

import math

import torch
from torch import nn


class PositionalEncoder(nn.Module):
    def __init__(self, max_seq_len: int = 40, d_model: int = 32):
        super().__init__()
        position = torch.arange(max_seq_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_seq_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]  # fault: AS502


class TimeSeriesTransformer(nn.Module):
    def __init__(self, input_size=3, dim_val=32, n_heads=4, n_layers=2):
        super().__init__()
        self.encoder_input_layer = nn.Linear(input_size, dim_val)
        self.positional_encoding_layer = PositionalEncoder(d_model=dim_val)
        layer = nn.TransformerEncoderLayer(dim_val, n_heads, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.linear_mapping = nn.Linear(dim_val, 1)

    def forward(self, src):
        """src: (batch, weeks, features)."""
        src = self.encoder_input_layer(src)
        src = self.positional_encoding_layer(src)
        return self.linear_mapping(self.encoder(src))


# also: AS501
with torch.random.fork_rng():
    torch.manual_seed(9)
    model = TimeSeriesTransformer().eval()
    inputs = {"src": torch.randn(4, 14, 3)}
