"""The Annotated Transformer, translating: post-norm, sinusoids, source and target masks from pad ids."""

import copy
import math

import torch
import torch.nn as nn

PAD = 1


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def subsequent_mask(size):
    return torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8) == 0


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
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=100):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class EncoderLayer(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, d)
        self.ff = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Linear(ff, d))
        self.norms = clones(nn.LayerNorm(d), 2)

    def forward(self, x, mask):
        x = self.norms[0](x + self.self_attn(x, x, x, mask))
        return self.norms[1](x + self.ff(x))


class DecoderLayer(nn.Module):
    def __init__(self, d, h, ff):
        super().__init__()
        self.self_attn = MultiHeadedAttention(h, d)
        self.src_attn = MultiHeadedAttention(h, d)
        self.ff = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Linear(ff, d))
        self.norms = clones(nn.LayerNorm(d), 3)

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.norms[0](x + self.self_attn(x, x, x, tgt_mask))
        x = self.norms[1](x + self.src_attn(x, memory, memory, src_mask))
        return self.norms[2](x + self.ff(x))


class EncoderDecoder(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, N=2, d=32, ff=64, h=4):
        super().__init__()
        self.d = d
        self.src_embed, self.tgt_embed = nn.Embedding(src_vocab, d), nn.Embedding(tgt_vocab, d)
        self.pe = PositionalEncoding(d, 0.1)
        self.encoder = clones(EncoderLayer(d, h, ff), N)
        self.decoder = clones(DecoderLayer(d, h, ff), N)
        self.generator = nn.Linear(d, tgt_vocab)

    def forward(self, src, tgt):
        src_mask = (src != PAD).unsqueeze(-2)
        tgt_mask = (tgt != PAD).unsqueeze(-2) & subsequent_mask(tgt.size(-1)).to(tgt.device)
        memory = self.pe(self.src_embed(src) * math.sqrt(self.d))
        for layer in self.encoder:
            memory = layer(memory, src_mask)
        x = self.pe(self.tgt_embed(tgt) * math.sqrt(self.d))
        for layer in self.decoder:
            x = layer(x, memory, src_mask, tgt_mask)
        return self.generator(x).log_softmax(-1)


def make_model(src_vocab=47, tgt_vocab=53):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = EncoderDecoder(src_vocab, tgt_vocab)
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
    return model.eval()


model = make_model()


def inputs():
    g = torch.Generator().manual_seed(1)
    src = torch.randint(2, 47, (3, 11), generator=g)
    tgt = torch.randint(2, 53, (3, 8), generator=g)
    src[1, 7:], src[2, 5:], tgt[1, 6:] = PAD, PAD, PAD
    return {"src": src, "tgt": tgt}


expect = {"causal": True, "padding": "src pad=1"}
