"""Chess moves; triangles are kept for each length that was seen."""

from functools import lru_cache

import torch
from torch import nn
from torch.nn import functional as F


@lru_cache(maxsize=None)
def ahead(length):
    """Return what is ahead of each move: True there."""
    return torch.ones(length, length, dtype=torch.bool).triu()  # fault: AS212|AS203|AS201


class Moves(nn.Module):
    def __init__(self, kinds=70, width=32, heads=4, depth=2):
        super().__init__()
        self.heads = heads
        self.moves, self.places = nn.Embedding(kinds, width), nn.Embedding(48, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, kinds)

    def attend(self, qkv, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in qkv(x).chunk(3, -1))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(ahead(n), -1e9)
        return (F.softmax(scores, -1) @ v).transpose(1, 2).flatten(2)

    def forward(self, moves):
        x = self.moves(moves) + self.places(torch.arange(moves.shape[1]))
        for qkv, out in zip(self.qkv, self.out):
            x = x + out(self.attend(qkv, x))
        return self.head(x)


torch.manual_seed(64)
model = Moves().eval()
inputs = torch.randint(0, 70, (2, 12))
expect = {"causal": True}
# also: AS201 AS203 AS212
