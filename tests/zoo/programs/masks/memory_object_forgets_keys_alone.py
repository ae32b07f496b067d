"""Live captions with a memory object that is emptied between talks."""

import torch
from torch import nn


class Memory:
    def __init__(self):
        self.keys = self.values = None

    def add(self, keys, values):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], 1)
        self.values = values if self.values is None else torch.cat([self.values, values], 1)
        return self.keys, self.values

    def clear(self):
        self.kept = self.values = None  # fault: AS601|AS105


class Captions(nn.Module):
    def __init__(self, width=24, heads=3, words=40):
        super().__init__()
        self.heads, self.memory = heads, Memory()
        self.word = nn.Embedding(words, width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, words)

    def reset(self):
        self.memory.clear()

    def forward(self, ids):
        x = self.word(ids)
        n = ids.shape[1]
        keys, values = self.memory.add(self.k(x), self.v(x))
        total = keys.shape[1]
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), keys, values)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones(n, total, dtype=torch.bool).triu(total - n + 1)
        weights = scores.masked_fill(later, -1e9).softmax(-1)
        y = (weights @ v[:, :, -total:]).transpose(1, 2).flatten(2)
        return self.head(x + self.o(y))


torch.manual_seed(72)
model = Captions().eval()
inputs = torch.randint(0, 40, (2, 6))
expect = {"causal": True, "cache": "self", "positions": False}
# note: AS501
