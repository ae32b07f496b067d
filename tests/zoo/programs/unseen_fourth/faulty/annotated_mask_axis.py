"""Encoder after the annotated transformer, masks from token ids."""
import math
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


def clones(m, n):
    return nn.ModuleList([copy.deepcopy(m) for _ in range(n)])


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
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
        query, key, value = [l(x).view(nb, -1, self.h, self.d_k).transpose(1, 2) for l, x in zip(self.linears, (query, key, value))]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        return self.linears[-1](x.transpose(1, 2).contiguous().view(nb, -1, self.h * self.d_k))


class Tagger(nn.Module):
    def __init__(self, vocab=70, tags=9, d_model=36, N=2, h=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.where = nn.Parameter(torch.randn(1, 50, d_model) * 0.1)
        self.layers = clones(MultiHeadedAttention(h, d_model), N)
        self.norms = clones(nn.LayerNorm(d_model), N)
        self.out = nn.Linear(d_model, tags)

    def forward(self, src):
        mask = (src != 0).unsqueeze(-1).unsqueeze(1)  # fault: AS202
        x = self.embed(src) + self.where[:, :src.size(1)]
        for layer, norm in zip(self.layers, self.norms):
            y = norm(x)
            x = x + layer(y, y, y, mask)
        return self.out(x)


torch.manual_seed(21)
model = Tagger()
model.eval()
inputs = torch.tensor([[4, 8, 15, 16, 23, 42, 0, 0, 0], [7, 7, 3, 9, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 8, 9, 11]])
expect = {"padding": "src pad=0"}
# also: AS203
