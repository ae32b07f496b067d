"""Tagger in the style of minGPT; the contiguous() before the last view went missing."""

import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, n_embd=48, n_head=6):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(n_embd, n_embd) for _ in range(3))
        self.proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head

    def forward(self, x):
        B, T, C = x.size()
        k = self.key(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        y = att.softmax(dim=-1) @ v
        y = y.transpose(1, 2)
        y = y.view(B, T, C)  # fault: AS106
        return self.proj(y)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(70, 48), nn.Embedding(30, 48)
        self.att = SelfAttention()
        self.out = nn.Linear(48, 9)

    def forward(self, idx):
        x = self.tok(idx) + self.pos.weight[: idx.size(1)]
        return self.out(x + self.att(x))


torch.manual_seed(0)
model = Tagger().eval()
inputs = torch.randint(0, 70, (2, 11))
