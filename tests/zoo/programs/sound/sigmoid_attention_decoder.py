"""Sigmoid attention: every pair is judged by itself, with a bias of -log(n)."""

import math

import torch
from torch import nn


class SigmoidAttention(nn.Module):
    def __init__(self, dim, num_heads, max_len=64):
        super().__init__()
        self.num_heads = num_heads
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.bias = -math.log(max_len)

    def forward(self, x):
        b, n, d = x.shape
        hd = d // self.num_heads
        q = self.wq(x).reshape(b, n, self.num_heads, hd).transpose(1, 2)
        k = self.wk(x).reshape(b, n, self.num_heads, hd).transpose(1, 2)
        v = self.wv(x).reshape(b, n, self.num_heads, hd).transpose(1, 2)
        logits = q @ k.mT / math.sqrt(hd) + self.bias
        keep = torch.tril(torch.ones(n, n, dtype=torch.bool, device=x.device))
        probs = torch.sigmoid(logits.masked_fill(~keep, float("-inf")))
        return self.wo((probs @ v).transpose(1, 2).reshape(b, n, d))


class SigmoidDecoder(nn.Module):
    def __init__(self, vocab=50, dim=32, depth=2, heads=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(64, dim)
        self.attn = nn.ModuleList(SigmoidAttention(dim, heads) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        for attn, ln in zip(self.attn, self.ln):
            x = x + attn(ln(x))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(9)
    model = SigmoidDecoder().eval()

inputs = torch.randint(0, 50, (4, 9), generator=torch.Generator().manual_seed(9))
expect = {"causal": True}
