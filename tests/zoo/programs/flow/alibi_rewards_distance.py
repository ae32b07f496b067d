"""Causal ALiBi attention, slopes by the paper."""

import math

import torch
from torch import nn


def get_slopes(n):
    start = 2 ** (-(2 ** -(math.log2(n) - 3)))
    return [start * start**i for i in range(n)]


class AlibiAttention(nn.Module):
    def __init__(self, hidden, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d = hidden // n_heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_heads)).view(1, n_heads, 1, 1))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.query_key_value(x).view(b, t, 3, self.n_heads, self.d).unbind(2)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d)
        place = torch.arange(t, device=x.device)
        distance = place[:, None] - place[None, :]
        scores = scores + self.slopes * distance  # fault: AS505
        scores = scores.masked_fill(distance < 0, float("-inf"))
        out = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return self.dense(out.reshape(b, t, -1))


class Model(nn.Module):
    def __init__(self, vocab=64, hidden=32, n_heads=8, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(AlibiAttention(hidden, n_heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, vocab)

    def forward(self, tokens):
        x = self.wte(tokens)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(65)
    model = Model().eval()

inputs = torch.randint(0, 64, (2, 24), generator=torch.Generator().manual_seed(65))
