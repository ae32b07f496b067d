"""Retrieval: embeddings of a causal encoder, the mean of all positions."""

import math

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        scores = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(q.size(-1))
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        return self.to_out(torch.einsum("bij,bjd->bid", weights, v))


class Embedder(nn.Module):
    def __init__(self, vocab_size=50, dim=24, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.place = nn.Embedding(40, dim)
        self.blocks = nn.ModuleList(CausalAttention(dim) for _ in range(depth))

    def forward(self, tokens):
        hidden = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            hidden = hidden + block(hidden)
        pooled = hidden.mean(dim=1)
        return nn.functional.normalize(pooled, dim=-1)


model = Embedder().eval()
inputs = {"tokens": torch.randint(0, 50, (4, 9))}
expect = {"causal": True}
