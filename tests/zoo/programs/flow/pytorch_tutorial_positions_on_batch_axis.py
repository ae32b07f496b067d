"""The tutorial's language model, with batch_first=True."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 200):
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


class TransformerModel(nn.Module):
    def __init__(self, ntoken=100, d_model=32, nhead=4, d_hid=48, nlayers=2):
        super().__init__()
        self.embedding = nn.Embedding(ntoken, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, 0.1, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(
            encoder_layers, nlayers, enable_nested_tensor=False
        )
        self.linear = nn.Linear(d_model, ntoken)
        self.d_model = d_model

    def forward(self, src):
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        mask = nn.Transformer.generate_square_subsequent_mask(src.size(1))
        output = self.transformer_encoder(src, mask=mask)
        return self.linear(output)


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = TransformerModel().eval()

inputs = torch.randint(0, 100, (5, 14), generator=torch.Generator().manual_seed(3))
# also: AS102 AS501
