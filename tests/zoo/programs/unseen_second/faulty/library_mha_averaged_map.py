"""Encoder layer on nn.MultiheadAttention that hands out its weights for the heat-map page."""

import torch
from torch import nn


class ReportingLayer(nn.Module):
    """Returns states (batch, length, width) and the weights of each head (batch, heads, length, length)."""

    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        y, weights = self.attn(x, x, x, need_weights=True)  # fault: AS803
        x = self.norm(x + y)
        return x + torch.tanh(self.gate(x)), weights


class Report(nn.Module):
    def __init__(self, letters=30, width=32, heads=4):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(50, width)
        self.layers = nn.ModuleList([ReportingLayer(width, heads), ReportingLayer(width, heads)])

    def forward(self, text):
        x = self.letter(text) + self.place(torch.arange(text.size(1)))
        maps = []
        for layer in self.layers:
            x, weights = layer(x)
            maps.append(weights)
        return {"states": x, "attentions": maps}


torch.manual_seed(26)
model = Report().eval()
inputs = torch.randint(0, 30, (3, 14))
