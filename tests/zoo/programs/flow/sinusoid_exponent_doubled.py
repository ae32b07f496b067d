"""Translation encoder from a blog post: the table is filled in two loops."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionalEncoder(nn.Module):
    def __init__(self, d_model, max_seq_len=80):
        super().__init__()
        self.d_model = d_model
        pe = torch.zeros(max_seq_len, d_model)
        for pos in range(max_seq_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = math.sin(pos / (10000 ** ((2 * i) / d_model)))  # fault: AS505
                pe[pos, i + 1] = math.cos(pos / (10000 ** ((2 * (i + 1)) / d_model)))  # fault: AS505
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        x = x * math.sqrt(self.d_model)
        return x + self.pe[:, : x.size(1)]


class MultiHeadAttention(nn.Module):
    def __init__(self, heads, d_model):
        super().__init__()
        self.d_k, self.h = d_model // heads, heads
        self.q_linear = nn.Linear(d_model, d_model)
        self.k_linear = nn.Linear(d_model, d_model)
        self.v_linear = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, mask=None):
        bs = q.size(0)
        k = self.k_linear(k).view(bs, -1, self.h, self.d_k).transpose(1, 2)
        q = self.q_linear(q).view(bs, -1, self.h, self.d_k).transpose(1, 2)
        v = self.v_linear(v).view(bs, -1, self.h, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        output = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.out(output.transpose(1, 2).contiguous().view(bs, -1, self.h * self.d_k))


class Encoder(nn.Module):
    def __init__(self, vocab_size=70, d_model=32, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.pe = PositionalEncoder(d_model)
        self.attn = MultiHeadAttention(heads, d_model)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, src):
        x = self.pe(self.embed(src))
        x2 = self.norm(x)
        return x + self.attn(x2, x2, x2)


with torch.random.fork_rng():
    torch.manual_seed(61)
    model = Encoder().eval()

inputs = torch.randint(0, 70, (2, 15), generator=torch.Generator().manual_seed(61))
