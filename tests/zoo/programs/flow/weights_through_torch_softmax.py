"""Attention pooling over sentence vectors, softmax by hand."""

import torch
from torch import nn


def stable_softmax(x):
    e = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return e / e.sum(dim=-1, keepdim=True)


class Pooler(nn.Module):
    def __init__(self, dim=24, heads=2, queries=3):
        super().__init__()
        self.heads = heads
        self.seeds = nn.Parameter(torch.randn(queries, dim))
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)

    def forward(self, sentences):
        b, n, d = sentences.shape
        q = self.seeds.view(1, -1, self.heads, d // self.heads).transpose(1, 2)
        k = self.wk(sentences).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.wv(sentences).view(b, n, self.heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) / (d // self.heads) ** 0.5
        weights = stable_softmax(scores)
        return self.wo(torch.matmul(weights, v).transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(96)
    model = Pooler()

inputs = torch.randn(4, 10, 24, generator=torch.Generator().manual_seed(96))
# note: AS501
