"""Pairs for a copy task; the batch carries its masks with it."""

from dataclasses import dataclass, field

import torch
from torch import nn

PAD = 0


@dataclass
class Batch:
    text: torch.Tensor
    keep: torch.Tensor = field(init=False)

    def __post_init__(self):
        length = self.text.shape[1]
        real = (self.text != PAD).unsqueeze(1)
        self.keep = real & torch.ones(length, length, dtype=torch.bool).tril()


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, batch):
        h = self.norm(x)
        q, k, v = self.split(self.q(h)), self.split(self.k(h)), self.split(self.v(h))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~batch.keep.unsqueeze(1), -1e9)
        return x + self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Copier(nn.Module):
    def __init__(self, vocabulary=45, width=36):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(30, width)
        self.layers = nn.ModuleList(Layer(width, 3) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, text):
        batch = Batch(text)
        x = self.tokens(batch.text) + self.places.weight[: text.shape[1]]
        for layer in self.layers:
            x = layer(x, batch)
        return self.head(x)


def model():
    torch.manual_seed(61)
    return Copier().eval()


inputs = torch.randint(1, 45, (3, 10), generator=torch.Generator().manual_seed(61))
inputs[0, 7:] = PAD
inputs[2, 8:] = PAD
expect = {"causal": True, "padding": "text pad=0"}
