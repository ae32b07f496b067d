"""Longformer-like encoder: a two-way window, and global tokens with projections of their own."""

import math

import torch
from torch import nn


class LongformerSelfAttention(nn.Module):
    def __init__(self, dim, heads, one_sided):
        super().__init__()
        self.heads, self.one_sided, self.hd = heads, one_sided, dim // heads
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.query_global, self.key_global, self.value_global = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.heads, self.hd).transpose(1, 2)

    def forward(self, x, keep, is_global):
        b, n, d = x.shape
        i = torch.arange(n, device=x.device)
        near = (i[:, None] - i[None, :]).abs() <= self.one_sided
        allowed = (near[None] | is_global[:, None, :]) & keep[:, None, :]
        low = torch.finfo(x.dtype).min

        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.mT / math.sqrt(self.hd)
        local = scores.masked_fill(~allowed[:, None], low).softmax(-1) @ v

        q, k, v = self.split(self.query_global(x)), self.split(self.key_global(x)), self.split(self.value_global(x))
        scores = q @ k.mT / math.sqrt(self.hd)
        wide = scores.masked_fill(~keep[:, None, None, :], low).softmax(-1) @ v

        out = torch.where(is_global[:, None, :, None], wide, local)
        return out.transpose(1, 2).reshape(b, n, d)


class Longformer(nn.Module):
    def __init__(self, vocab=68, dim=32, heads=2, layers=2, one_sided=3):
        super().__init__()
        self.word, self.position = nn.Embedding(vocab, dim), nn.Embedding(64, dim)
        self.attn = nn.ModuleList(LongformerSelfAttention(dim, heads, one_sided) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, input_ids, attention_mask, global_attention_mask):
        keep, is_global = attention_mask.bool(), global_attention_mask.bool()
        x = self.word(input_ids) + self.position(torch.arange(input_ids.size(1), device=input_ids.device))
        for attn, out, norm in zip(self.attn, self.out, self.norm):
            x = norm(x + out(attn(x, keep, is_global)))
        return x


with torch.random.fork_rng():
    torch.manual_seed(56)
    model = Longformer().eval()

inputs = {
    "input_ids": torch.randint(1, 68, (2, 18), generator=torch.Generator().manual_seed(57)),
    "attention_mask": (torch.arange(18) < torch.tensor([[18], [13]])).long(),
    "global_attention_mask": (torch.arange(18) < 2).long().expand(2, 18),
}
expect = {"padding": "attention_mask keep"}
