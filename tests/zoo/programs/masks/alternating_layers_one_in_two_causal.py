"""Price forecaster; a settings object decides what each layer does."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Settings:
    width: int = 28
    heads: int = 2
    depth: int = 3
    causal: bool = True


class Layer(nn.Module):
    def __init__(self, settings, causal):
        super().__init__()
        self.causal = causal
        self.heads = settings.heads
        self.qkv = nn.Linear(settings.width, 3 * settings.width)
        self.out = nn.Linear(settings.width, settings.width)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = torch.einsum("bhie,bhje->bhij", q, k) / q.shape[-1] ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        return x + self.out(torch.einsum("bhij,bhje->bihe", scores.softmax(-1), v).flatten(2))


class Prices(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.front = nn.Linear(4, settings.width)
        self.places = nn.Parameter(torch.randn(50, settings.width) * 0.1)
        self.layers = nn.ModuleList()
        for at in range(settings.depth):
            self.layers.append(Layer(settings, settings.causal and at % 2 == 0))  # fault: AS201
        self.head = nn.Linear(settings.width, 1)

    def forward(self, prices):
        x = self.front(prices) + self.places[: prices.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


torch.manual_seed(63)
model = Prices(Settings()).eval()
inputs = torch.randn(3, 11, 4)
expect = {"causal": True}
