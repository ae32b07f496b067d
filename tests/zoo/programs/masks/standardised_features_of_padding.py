"""Sensor encoder: q and k are standardised over their features; missing readings are all zero."""

import torch
from torch import nn
from torch.nn import functional as F


def standardised(t):
    return (t - t.mean(-1, keepdim=True)) / (t.std(-1, keepdim=True) + 1e-5)


class Sensors(nn.Module):
    def __init__(self, channels=6, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(channels, width)
        self.places = nn.Parameter(torch.randn(40, width) * 0.2)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, 2)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, readings, keep):
        x = (self.into(readings) + self.places[: readings.shape[1]]) * keep.unsqueeze(-1)
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        hidden = torch.zeros(keep.shape).masked_fill(~keep, -1e4)[:, None, None, :]
        scores = standardised(q) @ standardised(k).transpose(-2, -1) / q.shape[-1] ** 0.5
        scores = torch.where(keep[:, None, None, :], scores, hidden)
        return self.out((F.softmax(scores, -1) @ v).transpose(1, 2).flatten(2))


torch.manual_seed(32)
model = Sensors().eval()
_keep = torch.ones(3, 12, dtype=torch.bool)
_keep[0, 8:] = _keep[1, 10:] = False
inputs = {
    "readings": torch.randn(3, 12, 6, generator=torch.Generator().manual_seed(32)),
    "keep": _keep,
}
expect = {"padding": "keep keep"}
