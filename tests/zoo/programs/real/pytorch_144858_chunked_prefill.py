"""Llama-like attention that reads a prompt in chunks, keeping its own cache, https://github.com/pytorch/pytorch/issues/144858."""

import torch
import torch.nn.functional as F
from torch import nn


class CachedAttention(nn.Module):
    def __init__(self, dim=40, heads=5):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, kv_cache=None):
        qkv = self.wqkv(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if kv_cache is not None:
            k, v = (torch.cat(pair, dim=-2) for pair in zip(kv_cache, (k, v)))
        chunk = q.size(-2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=chunk > 1)  # fault: AS206|AS601
        return self.wo(y.transpose(1, 2).flatten(2)), (k, v)


class Reader(nn.Module):
    def __init__(self, vocab=55, dim=40):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(40, dim)
        self.norm = nn.RMSNorm(dim)
        self.attn = CachedAttention(dim)
        self.out = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, kv_cache=None):
        seen = 0 if kv_cache is None else kv_cache[0].size(-2)
        x = self.tok(ids) + self.pos(torch.arange(seen, seen + ids.size(1)))
        y, kv_cache = self.attn(self.norm(x), kv_cache)
        return self.out(x + y), kv_cache


def model():
    with torch.random.fork_rng():
        torch.manual_seed(144)
        return Reader().eval()


inputs = {"ids": torch.randint(0, 55, (2, 12), generator=torch.Generator().manual_seed(8))}
expect = {"causal": True, "cache": "kv_cache"}
