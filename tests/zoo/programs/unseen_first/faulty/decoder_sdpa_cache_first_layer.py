"""Decoder with a functional key/value cache over scaled_dot_product_attention."""
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import nn


class KV(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d, bias=False) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x, past: Optional[KV]):
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        if past is not None:
            k, v = torch.cat([past.k, k], dim=2), torch.cat([past.v, v], dim=2)
        lq, lk = q.size(2), k.size(2)
        visible = torch.ones(lq, lk, dtype=torch.bool).tril(diagonal=lk - lq)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self.wo(y.transpose(1, 2).flatten(-2)), KV(k, v)


class Decoder(nn.Module):
    def __init__(self, vocab=47, d=40, h=4, n=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.attns = nn.ModuleList(Attn(d, h) for _ in range(n))
        self.mlps = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d)) for _ in range(n))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, past=None):
        start = 0 if past is None else past[0].k.size(2)
        x = self.tok(ids) + self.pos(torch.arange(start, start + ids.size(1)))
        present = []
        for i, (norm, attn, mlp) in enumerate(zip(self.norms, self.attns, self.mlps)):
            y, kv = attn(norm(x), None if past is None else past[0])  # fault: AS601
            present.append(kv)
            x = x + y
            x = x + mlp(x)
        return self.head(x), present


with torch.random.fork_rng():
    torch.manual_seed(100)
    model = Decoder().eval()
inputs = {"ids": torch.randint(0, 47, (2, 11), generator=torch.Generator().manual_seed(3))}
expect = {"causal": True, "cache": "past"}
