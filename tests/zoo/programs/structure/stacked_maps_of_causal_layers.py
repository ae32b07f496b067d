"""Causal model with fused attention; for plots the maps of its layers are computed beside it."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.ln, self.c_attn, self.c_proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def attention_map(self, q, k):
        t = q.size(-2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return F.softmax(att, dim=-1)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(self.ln(x)).split(c, dim=2)
        q, k, v = (z.view(b, t, self.n_head, c // self.n_head).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        self.shown = self.attention_map(q, k)
        return x + self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Model(nn.Module):
    def __init__(self, vocab=50, dim=32, n_head=2, n_layer=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(32, dim)
        self.h = nn.ModuleList([Block(dim, n_head) for _ in range(n_layer)])

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        maps = torch.stack([block.shown for block in self.h])
        return {"hidden": x, "attention_maps": maps.transpose(0, 1)}


torch.manual_seed(4)
model = Model().eval()
inputs = (torch.randint(0, 50, (3, 9), generator=torch.Generator().manual_seed(4)),)
expect = {"causal": True}
