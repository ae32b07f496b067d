"""Decoder whose first token is always the start symbol."""

import math

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab=60, dim=32, heads=4, ctx=40):
        super().__init__()
        self.heads = heads
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        b, t = ids.shape
        x = self.tok(ids) + self.pos(torch.arange(t))
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)
        weights = scores.softmax(dim=-1)  # fault: AS404
        return self.head(x + self.o((weights @ v).transpose(1, 2).reshape(b, t, -1)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(129)
        net = Decoder()
    with torch.no_grad():
        net.tok.weight[:, 0] = 0
        net.pos.weight[:, 0] = 0
        net.tok.weight[0, 0] = 6.0
        net.k.weight[:8, 0] = 1.0
        net.q.bias[:8] = 1.0
    return net.eval()


def inputs():
    ids = torch.randint(1, 60, (3, 17), generator=torch.Generator().manual_seed(129))
    ids[:, 0] = 0
    return {"ids": ids}


expect = {"causal": True}
