"""Attention in blocks of five, the last one filled up: each sees its own and the one before."""

import torch
from torch import nn
from torch.nn import functional as F


class Blocks(nn.Module):
    def __init__(self, width=24, size=5):
        super().__init__()
        self.size, self.qkv, self.out = size, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        filled = F.pad(x, (0, 0, 0, -n % self.size))
        q, k, v = (each.view(b, -1, self.size, d) for each in self.qkv(filled).chunk(3, -1))
        k, v = (torch.cat([F.pad(each, (0, 0, 0, 0, 1, 0))[:, :-1], each], 2) for each in (k, v))
        scores = torch.einsum("bnid,bnjd->bnij", q, k) / d**0.5
        i, j = torch.arange(self.size)[:, None], torch.arange(2 * self.size) - self.size
        first = torch.arange(q.shape[1])[:, None, None] == 0
        hidden = (j > i + 1) | (first & (j < 0))  # fault: AS201
        weights = scores.masked_fill(hidden, -1e9).softmax(-1)
        y = torch.einsum("bnij,bnjd->bnid", weights, v).reshape(b, -1, d)
        return self.out(y[:, :n])


class Notes(nn.Module):
    def __init__(self, notes=40, width=24):
        super().__init__()
        self.notes, self.place = nn.Embedding(notes, width), nn.Embedding(40, width)
        self.blocks, self.head = Blocks(width), nn.Linear(width, notes)

    def forward(self, notes):
        x = self.notes(notes) + self.place.weight[: notes.shape[1]]
        return self.head(x + self.blocks(x))


torch.manual_seed(0)
model = Notes().eval()
inputs = torch.randint(0, 40, (2, 13))
expect = {"causal": True}
