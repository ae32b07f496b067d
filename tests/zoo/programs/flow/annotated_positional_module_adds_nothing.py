"""Sentence classifier after the Annotated Transformer: sinusoidal positions, then an encoder."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    """Implement the PE function."""

    def __init__(self, d_model, dropout, max_len=512):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        x + self.pe[:, : x.size(1)]  # fault: AS501
        return self.dropout(x)  # fault: AS501


class Classifier(nn.Module):
    def __init__(self, vocab=80, d_model=40, heads=5, layers=2, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.position = PositionalEncoding(d_model, 0.1)
        layer = nn.TransformerEncoderLayer(d_model, heads, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d_model, classes)
        self.scale = math.sqrt(d_model)

    def forward(self, tokens):
        x = self.position(self.embed(tokens) * self.scale)
        return self.out(self.encoder(x).mean(dim=1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return Classifier().eval()


inputs = torch.randint(0, 80, (4, 13), generator=torch.Generator().manual_seed(1))
