"""The annotated transformer, encoder side only (translation project)."""
import copy
import math
import torch
import torch.nn as nn


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def attention(query, key, value, mask=None, dropout=None):
    "Compute 'Scaled Dot Product Attention'"
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-2)  # fault: AS101
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
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class Encoder(nn.Module):
    def __init__(self, vocab, d_model=32, h=4, N=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.scale = math.sqrt(d_model)
        self.attns = nn.ModuleList(MultiHeadedAttention(h, d_model) for _ in range(N))
        self.ffs = nn.ModuleList(nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model)) for _ in range(N))
        self.norms = clones(nn.LayerNorm(d_model), 2 * N)
        pe = torch.zeros(100, d_model)
        position = torch.arange(0, 100).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, src, src_mask):
        x = self.emb(src) * self.scale + self.pe[:, : src.size(1)]
        for i, (a, f) in enumerate(zip(self.attns, self.ffs)):
            y = self.norms[2 * i](x)
            x = x + a(y, y, y, src_mask)
            x = x + f(self.norms[2 * i + 1](x))
        return x


torch.manual_seed(0)
model = Encoder(60).eval()
src = torch.randint(1, 60, (3, 10), generator=torch.Generator().manual_seed(0))
inputs = (src, (src != 0).unsqueeze(-2))
