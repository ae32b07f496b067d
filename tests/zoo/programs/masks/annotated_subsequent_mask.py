"""Decoder-only variant of the Annotated Transformer with sinusoidal positions."""

import math

import torch
import torch.nn as nn


def subsequent_mask(size):
    "Mask out subsequent positions."
    attn_shape = (1, size, size)
    mask = torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8)
    return mask == 0


def attention(query, key, value, mask=None):
    "Compute 'Scaled Dot Product Attention'"
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Decoder(nn.Module):
    def __init__(self, vocab=29, d_model=40, h=5, N=2):
        super().__init__()
        self.d_model = d_model
        self.lut = nn.Embedding(vocab, d_model)
        nn.init.normal_(self.lut.weight, std=d_model**-0.5)
        self.pe = PositionalEncoding(d_model)
        self.attns = nn.ModuleList(MultiHeadedAttention(h, d_model) for _ in range(N))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model)) for _ in range(N)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2 * N))
        self.generator = nn.Linear(d_model, vocab)

    def forward(self, tgt):
        x = self.pe(self.lut(tgt) * math.sqrt(self.d_model))
        mask = subsequent_mask(tgt.size(1))
        for i, (attn, ff) in enumerate(zip(self.attns, self.ffs)):
            x = self.norms[2 * i](x + attn(x, x, x, mask))
            x = self.norms[2 * i + 1](x + ff(x))
        return self.generator(x).log_softmax(-1)


with torch.random.fork_rng():
    torch.manual_seed(11)
    model = Decoder().eval()

inputs = torch.randint(0, 29, (2, 11), generator=torch.Generator().manual_seed(1))
expect = {"causal": True}
