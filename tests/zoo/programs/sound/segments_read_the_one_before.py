"""Segments of a long text: each one reads the states of the one before, kept on the module."""

import torch
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(40, width)
        self.places = nn.Parameter(torch.randn(9, width) * 0.3)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, 40)
        self.memory = None

    def forward(self, ids):
        x = self.embed(ids) + self.places[: ids.shape[1]]
        read = x if self.memory is None else self.memory
        self.memory = x.detach()
        weights = (self.q(x) @ self.k(read).mT / x.shape[-1] ** 0.5).softmax(-1)
        return self.head(x + weights @ self.v(read))


torch.manual_seed(0)
model = Recurrent().eval()
inputs = torch.randint(0, 40, (3, 9))
