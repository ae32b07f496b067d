"""Decoder of recipe steps over ingredient vectors that have no order; keys fewer than queries."""

import math

import torch
from torch import nn


class Reader(nn.Module):
    """Cross-attention by hand: q of the steps, k and v of the ingredients."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, steps, ingredients):
        def split(x):
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        k, v = map(split, self.kv(ingredients).chunk(2, -1))
        q = split(self.q(steps))
        weights = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Cook(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.ingredients, self.words = nn.Embedding(60, width), nn.Embedding(80, width)
        self.places = nn.Embedding(40, width)
        self.reader = Reader(width, 4)
        self.mixer = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 80)

    def forward(self, ingredients, steps):
        x = self.words(steps) + self.places(torch.arange(steps.shape[1]))
        x = x + self.reader(x, self.ingredients(ingredients))
        return self.head(self.mixer(x)[0])


torch.manual_seed(0)
model = Cook().eval()
inputs = {"ingredients": torch.randint(60, (2, 6)), "steps": torch.randint(80, (2, 10))}
