"""Time series transformer with the tutorial's PositionalEncoding."""
import math
import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=500):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0)]  # fault: AS502
        return self.dropout(x)


class TST(nn.Module):
    def __init__(self, features=3, d_model=32, horizon=4):
        super().__init__()
        self.input = nn.Linear(features, d_model)
        self.pos = PositionalEncoding(d_model)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model, 4, 64, batch_first=True), 2, enable_nested_tensor=False)
        self.out = nn.Linear(d_model, horizon)

    def forward(self, series):
        z = self.encoder(self.pos(self.input(series)))
        return self.out(z)


torch.manual_seed(0)
model = TST().eval()
inputs = {"series": torch.randn(5, 16, 3, generator=torch.Generator().manual_seed(0))}
# also: AS102, AS501
