"""Decoder with an incremental state kept by the module itself."""

import torch
import torch.nn.functional as F
from torch import nn


class IncrementalAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.saved = None

    def forward(self, x):
        T, B, C = x.shape
        q = self.q(x).view(T, B * self.h, -1).transpose(0, 1)
        k = self.k(x).view(T, B * self.h, -1).transpose(0, 1)
        v = self.v(x).view(T, B * self.h, -1).transpose(0, 1)
        fresh = (k, v)
        offset = 0
        if self.saved is not None:
            offset = self.saved[0].size(1)
            k = torch.cat([self.saved[0], k], dim=1)
            v = torch.cat([self.saved[1], v], dim=1)
        self.saved = fresh  # fault: AS601
        w = torch.bmm(q, k.transpose(1, 2)) * q.size(-1) ** -0.5
        rows = torch.arange(T)[:, None] + offset
        w = w.masked_fill(torch.arange(k.size(1))[None, :] > rows, float("-inf"))
        y = torch.bmm(F.softmax(w, dim=-1), v)
        return self.o(y.transpose(0, 1).reshape(T, B, C))


class StreamingDecoder(nn.Module):
    def __init__(self, vocab=66, dim=28, heads=4, depth=2):
        super().__init__()
        self.embed, self.position = nn.Embedding(vocab, dim), nn.Embedding(64, dim)
        self.layers = nn.ModuleList(IncrementalAttention(dim, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth + 1))
        self.out = nn.Linear(dim, vocab)
        self.seen = 0

    def reset(self):
        self.seen = 0
        for layer in self.layers:
            layer.saved = None

    def forward(self, tokens):
        steps = torch.arange(self.seen, self.seen + tokens.size(1))
        self.seen += tokens.size(1)
        x = (self.embed(tokens) + self.position(steps)).transpose(0, 1)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.out(self.norms[-1](x)).transpose(0, 1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(19)
        return StreamingDecoder().eval()


inputs = {"tokens": torch.randint(0, 66, (3, 11), generator=torch.Generator().manual_seed(4))}
expect = {"causal": True, "cache": "self"}
