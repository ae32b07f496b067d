"""Detector: queries read a feature map whose padding is marked in a mask of the whole picture."""

import torch
from torch import nn


class Read(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, asks, memory, padded):
        b, n, d = asks.shape
        q, k, v = (
            f(x).view(b, -1, self.heads, d // self.heads).transpose(1, 2)
            for f, x in ((self.q, asks), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.mT / (d // self.heads) ** 0.5
        scores = scores.masked_fill(~padded[:, None, None], -1e9)  # fault: AS205
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Detector(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Conv2d(3, width, 4, 4)
        self.asks, self.place = (
            nn.Parameter(torch.randn(5, width)),
            nn.Parameter(torch.randn(24, width)),
        )
        self.read, self.head = Read(width), nn.Linear(width, 4)

    def forward(self, pictures, padding):
        memory = self.body(pictures).flatten(2).mT + self.place
        padded = padding[:, ::4, ::4].flatten(1)
        asks = self.asks.expand(len(pictures), -1, -1)
        return self.head(asks + self.read(asks, memory, padded))


# also: AS202 AS212
torch.manual_seed(0)
model = Detector().eval()
_padding = torch.zeros(2, 16, 24, dtype=torch.bool)
_padding[0, :, 12:] = True
_padding[1, 8:] = True
inputs = {"pictures": torch.randn(2, 3, 16, 24), "padding": _padding}
expect = {"padding": "padding drop"}
