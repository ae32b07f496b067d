"""Melody language model: nn.TransformerEncoder with a square subsequent mask."""
import math

import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (math.log(10000.0) / d_model))  # fault: AS505
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class MelodyModel(nn.Module):
    def __init__(self, notes=67, d_model=32, nhead=4, layers=2):
        super().__init__()
        self.notes = nn.Embedding(notes, d_model, padding_idx=0)
        self.positional = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward=50, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.to_note = nn.Linear(d_model, notes)
        self.d_model = d_model

    def forward(self, melody):
        x = self.positional(self.notes(melody) * math.sqrt(self.d_model))
        future = torch.triu(torch.ones(melody.size(1), melody.size(1), dtype=torch.bool), diagonal=1)
        x = self.encoder(x, mask=future, src_key_padding_mask=melody == 0)
        return self.to_note(x)


def model():
    torch.manual_seed(6)
    return MelodyModel().eval()


inputs = {"melody": torch.randint(1, 67, (3, 15), generator=torch.Generator().manual_seed(0))}
inputs["melody"][1, 11:] = 0
expect = {"causal": True, "padding": "melody pad=0"}
