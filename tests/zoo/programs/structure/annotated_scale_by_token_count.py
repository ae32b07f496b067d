"""Encoder whose attention is sharpened with the logarithm of the number of tokens."""

import copy
import math

import torch
import torch.nn as nn


def clones(module, N):
    "Produce N identical layers."
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def attention(query, key, value, mask=None, dropout=None):
    "Compute scaled dot product attention."
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores * mask.sum().float().log() / 2.0  # fault: AS305
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query = self.linears[0](query).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
        key = self.linears[1](key).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
        value = self.linears[2](value).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class EncoderLayer(nn.Module):
    def __init__(self, size, h, d_ff, dropout):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, size, dropout)
        self.w_1 = nn.Linear(size, d_ff)
        self.w_2 = nn.Linear(d_ff, size)
        self.norms = clones(nn.LayerNorm(size), 2)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        y = self.norms[0](x)
        x = x + self.dropout(self.self_attn(y, y, y, mask))
        return x + self.dropout(self.w_2(self.w_1(self.norms[1](x)).relu()))


class Encoder(nn.Module):
    def __init__(self, vocab, d_model, h, d_ff, N, dropout=0.1, max_len=64):
        super().__init__()
        self.d_model = d_model
        self.lut = nn.Embedding(vocab, d_model)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.layers = nn.ModuleList([EncoderLayer(d_model, h, d_ff, dropout) for _ in range(N)])
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, src, src_mask):
        x = self.lut(src) * math.sqrt(self.d_model) + self.pe[:, : src.size(1)]
        for layer in self.layers:
            x = layer(x, src_mask)
        return self.norm(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return Encoder(vocab=53, d_model=32, h=4, d_ff=80, N=2).eval()


def inputs():
    src = torch.randint(1, 53, (3, 11), generator=torch.Generator().manual_seed(8))
    src[1, 8:] = 0
    src[2, 6:] = 0
    return {"src": src, "src_mask": (src != 0).unsqueeze(-2)}

# also: AS102
