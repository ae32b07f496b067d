"""Attention pooling over sentence vectors, softmax with scipy-like code."""

import numpy as np
import torch
from torch import nn


def stable_softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


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
        weights = torch.from_numpy(stable_softmax(scores.detach().numpy()))  # fault: AS902
        return self.wo(torch.matmul(weights, v).transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(96)
    model = Pooler()

inputs = torch.randn(4, 10, 24, generator=torch.Generator().manual_seed(96))
# also: AS903 AS501
