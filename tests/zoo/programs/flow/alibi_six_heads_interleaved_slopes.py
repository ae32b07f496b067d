"""ALiBi decoder with six heads: slopes of eight, every other one for the rest."""

import math

import torch
from torch import nn


def slopes(n):
    def power_of_two(n):
        start = 2 ** (-8 / n)
        return [start ** (i + 1) for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    near = 2 ** math.floor(math.log2(n))
    return power_of_two(near) + power_of_two(2 * near)[0::2][: n - near]


class Decoder(nn.Module):
    def __init__(self, vocab=48, dim=36, heads=6):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, dim)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("slopes", torch.tensor(slopes(heads)).view(heads, 1, 1))

    def forward(self, ids):
        x = self.embed(ids)
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        bias = self.slopes * torch.arange(t)[None, None, :]
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = (q @ k.mT / math.sqrt(c // self.heads) + bias).masked_fill(future, -math.inf)
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(151)
    model = Decoder().eval()

inputs = {"ids": torch.randint(0, 48, (2, 16), generator=torch.Generator().manual_seed(151))}
expect = {"causal": True}
