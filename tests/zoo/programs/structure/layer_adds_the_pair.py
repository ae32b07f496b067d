"""Encoder layer that adds what nn.MultiheadAttention returns, weights and all."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attn(y, y, y)  # fault: AS105
        return x


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), Block(), nn.Linear(32, 3)).eval()
inputs = torch.randn(2, 10, 6)
