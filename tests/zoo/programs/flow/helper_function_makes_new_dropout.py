"""Annotated-Transformer style attention function used by a tiny decoder layer."""

import math

import torch
from torch import nn


def attention(query, key, value, mask=None, dropout=0.1):
    "Compute 'Scaled Dot Product Attention'"
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    p_attn = nn.Dropout(dropout)(p_attn)  # fault: AS701
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, _ = attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class DecoderLayer(nn.Module):
    def __init__(self, size=48, h=8):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        subsequent = torch.triu(torch.ones(1, x.size(1), x.size(1)), diagonal=1) == 0
        y = self.norm(x)
        return x + self.self_attn(y, y, y, subsequent.unsqueeze(1))


with torch.random.fork_rng():
    torch.manual_seed(84)
    model = DecoderLayer().eval()

inputs = torch.randn(2, 10, 48, generator=torch.Generator().manual_seed(84))
