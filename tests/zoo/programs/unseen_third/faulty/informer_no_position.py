"""Weather forecaster: value embedding, encoder, linear head; positions come from the embedding module."""
import math

import torch
import torch.nn as nn


class PositionalEmbedding(nn.Module):
    def __init__(self, d_model, max_len=512):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(max_len).float().unsqueeze(1)
        div_term = (torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model)).exp()
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return self.pe[:, : x.size(1)]


class DataEmbedding(nn.Module):
    def __init__(self, c_in, d_model):
        super().__init__()
        self.value_embedding = nn.Linear(c_in, d_model)
        self.position_embedding = PositionalEmbedding(d_model)
        self.dropout = nn.Dropout(p=0.1)

    def forward(self, x):
        x = self.value_embedding(x)  # fault: AS501|AS903
        return self.dropout(x)


class Weather(nn.Module):
    def __init__(self, c_in=5, d=32):
        super().__init__()
        self.enc_embedding = DataEmbedding(c_in, d)
        self.encoder = nn.ModuleList([nn.TransformerEncoderLayer(d, 4, 48, batch_first=True) for _ in range(2)])
        self.head = nn.Linear(d, c_in)

    def forward(self, x_enc):
        x = self.enc_embedding(x_enc)
        for l in self.encoder:
            x = l(x)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(72)
    model = Weather().eval()
inputs = torch.randn(3, 20, 5, generator=torch.Generator().manual_seed(72))
