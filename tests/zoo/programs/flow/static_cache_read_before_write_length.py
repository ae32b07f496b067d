"""Decoding layer with a preallocated cache that lives in the module."""

import math

import torch
from torch import nn


class StaticCacheAttention(nn.Module):
    def __init__(self, dim=30, n_heads=3, max_batch=8, max_seq=32):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        shape = (max_batch, max_seq, n_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)
        self.start = 0

    def reset(self):
        self.start = 0
        self.cache_k.zero_()
        self.cache_v.zero_()

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wqkv(x).view(bsz, seqlen, 3, self.n_heads, -1).unbind(2)
        end = self.start + seqlen
        cache_k, cache_v = self.cache_k.clone(), self.cache_v.clone()
        cache_k[:bsz, self.start : end] = xk
        cache_v[:bsz, self.start : end] = xv
        visible = max(self.start, seqlen)  # fault: AS601
        keys = cache_k[:bsz, :visible].transpose(1, 2)  # fault: AS601
        values = cache_v[:bsz, :visible].transpose(1, 2)  # fault: AS601
        self.cache_k, self.cache_v = cache_k.detach(), cache_v.detach()
        scores = xq.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(self.head_dim)
        ahead = torch.ones(seqlen, visible, dtype=torch.bool).triu(self.start + 1)
        weights = scores.masked_fill(ahead, float("-inf")).softmax(dim=-1)
        self.start = end
        return self.wo((weights @ values).transpose(1, 2).reshape(bsz, seqlen, -1))


with torch.random.fork_rng():
    torch.manual_seed(72)
    model = StaticCacheAttention().eval()

inputs = torch.randn(3, 10, 30, generator=torch.Generator().manual_seed(72))
expect = {"causal": True, "cache": "self"}
# also: AS212
