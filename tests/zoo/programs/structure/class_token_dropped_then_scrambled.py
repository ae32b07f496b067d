"""Patches without the class token attend; the class token is put back behind."""

import torch
from torch import nn
import torch.nn.functional as F


class PatchMixer(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, tokens):
        qkv = self.qkv(tokens)[:, 1:]
        b, n, d3 = qkv.shape
        q, k, v = qkv.reshape(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        q = q.permute(0, 2, 1, 3).reshape(b, self.h, n, -1)  # fault: AS103
        y = F.scaled_dot_product_attention(q, k, v)
        y = self.o(y.transpose(1, 2).flatten(2))
        return torch.cat([tokens[:, :1], tokens[:, 1:] + y], 1)


torch.manual_seed(0)
model = PatchMixer().eval()
inputs = torch.randn(2, 10, 32, generator=torch.Generator().manual_seed(0))
