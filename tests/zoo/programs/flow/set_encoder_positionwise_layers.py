"""Encoder of a set of measurements: position-wise layers, and no positions on purpose."""

import torch
from torch import nn
from torch.nn import functional as F


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_2(self.dropout(F.relu(self.w_1(x))))


class SetLayer(nn.Module):
    def __init__(self, d_model=32, h=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, h, batch_first=True)
        self.position_wise_ffn = PositionwiseFeedForward(d_model, 48)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.self_attn(x, x, x, need_weights=False)[0])
        return self.norm2(x + self.position_wise_ffn(x))


class SetEncoder(nn.Module):
    def __init__(self, features=6, d_model=32, classes=3):
        super().__init__()
        self.lift = nn.Linear(features, d_model)
        self.layers = nn.Sequential(SetLayer(d_model), SetLayer(d_model))
        self.head = nn.Linear(d_model, classes)

    def forward(self, measurements):
        return self.head(self.layers(self.lift(measurements)).mean(1))


with torch.random.fork_rng():
    torch.manual_seed(44)
    model = SetEncoder().eval()
inputs = torch.randn(3, 10, 6, generator=torch.Generator().manual_seed(44))
