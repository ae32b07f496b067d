"""Encoder-decoder after the Annotated Transformer, with source and target masks."""
import copy
import math

import torch
import torch.nn as nn


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


def attention(query, key, value, mask=None):
    "Compute 'Scaled Dot Product Attention'"
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1)  # fault: AS207
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = clones(nn.Linear(d_model, d_model), 4)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nb = query.size(0)
        query, key, value = [
            lin(x).view(nb, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nb, -1, self.h * self.d_k)
        return self.linears[-1](x)


class EncoderLayer(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, d)
        self.ff = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Linear(ff, d))
        self.norms = clones(nn.LayerNorm(d), 2)

    def forward(self, x, mask):
        y = self.norms[0](x)
        x = x + self.self_attn(y, y, y, mask)
        return x + self.ff(self.norms[1](x))


class DecoderLayer(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.self_attn, self.src_attn = MultiHeadedAttention(h, d), MultiHeadedAttention(h, d)
        self.ff = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Linear(ff, d))
        self.norms = clones(nn.LayerNorm(d), 3)

    def forward(self, x, memory, src_mask, tgt_mask):
        m = memory
        y = self.norms[0](x)
        x = x + self.self_attn(y, y, y, tgt_mask)
        y = self.norms[1](x)
        x = x + self.src_attn(y, m, m, src_mask)
        return x + self.ff(self.norms[2](x))


class Seq2Seq(nn.Module):
    def __init__(self, vocab=53, d=40, h=5, ff=72, n=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(32, d)
        self.enc = clones(EncoderLayer(d, h, ff), n)
        self.dec = clones(DecoderLayer(d, h, ff), n)
        self.out = nn.Linear(d, vocab)

    def embed(self, ids):
        return self.emb(ids) * math.sqrt(40) + self.pos(torch.arange(ids.size(1)))

    def forward(self, src, tgt, pad=0):
        src_mask = (src != pad).unsqueeze(-2)
        size = tgt.size(1)
        tgt_mask = (tgt != pad).unsqueeze(-2) & (torch.triu(torch.ones(1, size, size), diagonal=1) == 0)
        m = self.embed(src)
        for layer in self.enc:
            m = layer(m, src_mask)
        x = self.embed(tgt)
        for layer in self.dec:
            x = layer(x, m, src_mask, tgt_mask)
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(5)
    model = Seq2Seq().eval()
    src = torch.randint(1, 53, (3, 11))
    tgt = torch.randint(1, 53, (3, 8))
src[1, 8:] = 0
src[2, 5:] = 0
inputs = {"src": src, "tgt": tgt}
# also: AS201|AS202
expect = {"causal": True, "padding": "src pad=0"}
