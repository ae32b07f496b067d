"""Stock return forecaster with the tutorial's positional encoding."""
import math
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0).transpose(0, 1))

    def forward(self, x):
        return x + self.pe[:x.size(0), :]  # fault: AS502


class StockFormer(nn.Module):
    def __init__(self, n_feat=4, d_model=32, nhead=4):
        super().__init__()
        self.lin = nn.Linear(n_feat, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 64, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.decoder = nn.Linear(d_model, 1)

    def forward(self, x):
        h = self.pos_encoder(self.lin(x))
        return self.decoder(self.transformer_encoder(h).mean(1))


def model():
    torch.manual_seed(42)
    return StockFormer().eval()


inputs = (torch.randn(6, 19, 4, generator=torch.Generator().manual_seed(42)),)
# also: AS501 AS102
