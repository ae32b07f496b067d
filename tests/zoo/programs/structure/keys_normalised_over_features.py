"""Attention with standardised keys (a "whitening" idea), bidirectional."""

import torch
from torch import nn


class WhitenedAttention(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        k = (k - k.mean(-1, keepdim=True)) / (k.std(-1, keepdim=True) + 1e-5)
        att = (q @ k.transpose(-2, -1)) * (C // self.heads) ** -0.5
        return self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


torch.manual_seed(2)
model = WhitenedAttention().eval()
inputs = torch.randn(3, 10, 32, generator=torch.Generator().manual_seed(2))
