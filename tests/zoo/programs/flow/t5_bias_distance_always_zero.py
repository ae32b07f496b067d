"""Encoder with a learned bias for the distance between tokens, shared by the layers."""

import torch
from torch import nn


class DistanceBias(nn.Module):
    def __init__(self, heads, max_distance=16):
        super().__init__()
        self.max_distance = max_distance
        self.table = nn.Embedding(2 * max_distance + 1, heads)

    def forward(self, length):
        query_place = torch.arange(length)[:, None]
        key_place = torch.arange(length)[:, None]  # fault: AS501|AS903
        distance = (key_place - query_place).clamp(-self.max_distance, self.max_distance)  # fault: AS501|AS903
        bias = self.table(distance + self.max_distance)
        return bias.permute(2, 0, 1).unsqueeze(0)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.ff = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 80), nn.ReLU(), nn.Linear(80, width)
        )

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, bias):
        h = self.norm(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = torch.softmax(scores + bias, dim=-1)
        context = torch.einsum("bhqk,bhkd->bhqd", weights, v).transpose(1, 2).flatten(2)
        x = x + self.o(context)
        return x + self.ff(x)


class Encoder(nn.Module):
    def __init__(self, vocab=90, width=36, heads=3, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.bias = DistanceBias(heads)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))

    def forward(self, input_ids):
        x = self.embed(input_ids)
        bias = self.bias(input_ids.shape[1])
        for layer in self.layers:
            x = layer(x, bias)
        return x


with torch.random.fork_rng():
    torch.manual_seed(21)
    model = Encoder().eval()

inputs = {"input_ids": torch.randint(0, 90, (2, 11), generator=torch.Generator().manual_seed(2))}
