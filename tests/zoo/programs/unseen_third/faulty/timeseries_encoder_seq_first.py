"""Anomaly scores for machine logs with nn.TransformerEncoder on windows (batch, window, features)."""
import math

import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=500):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1), :]


class TranAD(nn.Module):
    def __init__(self, feats=6, nhead=3, d=24):
        super().__init__()
        self.name = "TranAD_small"
        self.proj = nn.Linear(feats, d)
        self.pos_encoder = PositionalEncoding(d)
        encoder_layers = nn.TransformerEncoderLayer(d_model=d, nhead=nhead, dim_feedforward=16, dropout=0.1)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, 1)
        self.fcn = nn.Sequential(nn.Linear(d, feats), nn.Sigmoid())

    def forward(self, window):
        src = self.pos_encoder(self.proj(window) * math.sqrt(24))
        memory = self.transformer_encoder(src)  # fault: AS102
        return self.fcn(memory)


# also: AS501
def build():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return TranAD()


model = build().eval()
inputs = torch.rand(8, 10, 6, generator=torch.Generator().manual_seed(2))
