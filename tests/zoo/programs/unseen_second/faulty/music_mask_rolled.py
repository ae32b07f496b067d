"""Event-based music decoder with relative attention (skewing)."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class RelativeGlobalAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.key, self.value, self.query = (nn.Linear(d_model, d_model) for _ in range(3))
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.max_len = max_len
        self.Er = nn.Parameter(torch.randn(max_len, self.d_head) * 0.3)
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len), diagonal=1)[None, None])  # fault: AS201

    def skew(self, QEr):
        padded = F.pad(QEr, (1, 0))
        batch, heads, rows, cols = padded.shape
        return padded.reshape(batch, heads, cols, rows)[:, :, 1:, :]

    def forward(self, x):
        batch, seq, _ = x.shape
        k_t = self.key(x).reshape(batch, seq, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(batch, seq, self.num_heads, -1).transpose(1, 2)
        q = self.query(x).reshape(batch, seq, self.num_heads, -1).transpose(1, 2)
        Er_t = self.Er[self.max_len - seq :].transpose(0, 1)
        Srel = self.skew(q @ Er_t)
        attn = (q @ k_t + Srel) / math.sqrt(self.d_head)
        attn = attn.masked_fill(self.mask[:, :, :seq, :seq] == 0, float("-inf"))  # fault: AS201
        attn = F.softmax(attn, dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(batch, seq, -1)
        return self.dropout(self.out(out))


class MusicTransformer(nn.Module):
    def __init__(self, events=77, d_model=40, heads=5, layers=2, max_len=48):
        super().__init__()
        self.embed = nn.Embedding(events, d_model)
        self.rga = nn.ModuleList(RelativeGlobalAttention(d_model, heads, max_len, 0.1) for _ in range(layers))
        self.pre = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(layers))
        self.fc = nn.Linear(d_model, events)

    def forward(self, midi):
        h = self.embed(midi)
        for pre, rga in zip(self.pre, self.rga):
            h = h + rga(pre(h))
        return self.fc(h)


torch.manual_seed(440)
model = MusicTransformer().eval()
inputs = {"midi": torch.randint(0, 77, (2, 21))}
expect = {"causal": True}
