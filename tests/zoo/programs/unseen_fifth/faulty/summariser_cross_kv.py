"""Annotated-Transformer style decoder layer for abstractive summarisation."""
import copy
import math
import torch
import torch.nn as nn


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        nb = query.size(0)
        query, key, value = [lin(t).view(nb, -1, self.h, self.d_k).transpose(1, 2)
                             for lin, t in zip(self.linears, (query, key, value))]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nb, -1, self.h * self.d_k)
        return self.linears[-1](x)


class SummaryDecoderLayer(nn.Module):
    def __init__(self, size=36, h=4):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, size)
        self.src_attn = MultiHeadedAttention(h, size)
        self.norm = clones(nn.LayerNorm(size), 3)
        self.ffn = nn.Sequential(nn.Linear(size, 80), nn.ReLU(), nn.Linear(80, size))

    def forward(self, x, memory):
        t = x.size(1)
        subsequent = torch.tril(torch.ones(1, t, t, device=x.device))
        y = self.norm[0](x)
        x = x + self.self_attn(y, y, y, subsequent)
        y = self.norm[1](x)
        x = x + self.src_attn(y, y, y)  # fault: AS107
        return x + self.ffn(self.norm[2](x))


torch.manual_seed(40)
model = SummaryDecoderLayer().eval()
gen = torch.Generator().manual_seed(41)
inputs = {"x": torch.randn(2, 7, 36, generator=gen), "memory": torch.randn(2, 12, 36, generator=gen)}
