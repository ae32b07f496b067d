"""Frozen encoder with low-rank adapters on the query projection."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRA(nn.Module):
    def __init__(self, base, r=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Linear(base.in_features, r, bias=False)
        self.b = nn.Linear(r, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


class Frozen(nn.Module):
    def __init__(self, vocab=60, d=32, h=4):
        super().__init__()
        self.h = h
        self.emb, self.pos = nn.Embedding(vocab, d).requires_grad_(False), nn.Embedding(32, d).requires_grad_(False)
        self.q, self.k, self.v, self.o = (LoRA(nn.Linear(d, d)) for _ in range(4))
        self.cls = nn.Linear(d, 3)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[:ids.size(1)]
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.cls(x.mean(1))


torch.manual_seed(13)
model = Frozen().eval()
