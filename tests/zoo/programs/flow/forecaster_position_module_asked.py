"""Load forecaster: the value embedding forgot to ask the position module that it holds."""

import torch
from torch import nn


class Embed(nn.Module):
    def __init__(self, series, width, length=96):
        super().__init__()
        self.lift, self.norm = nn.Linear(series, width), nn.LayerNorm(width)
        self.positions = nn.Embedding(length, width)

    def forward(self, values):
        return self.norm(self.lift(values) + self.positions(torch.arange(values.shape[1])))


class Forecaster(nn.Module):
    def __init__(self, series=4, width=24, heads=3):
        super().__init__()
        self.embed, self.heads = Embed(series, width), heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, series)

    def forward(self, values):
        x = self.embed(values)
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # noqa: E731
        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        a = torch.einsum("bhid,bhjd->bhij", q, k).mul(q.shape[-1] ** -0.5).softmax(-1)
        y = torch.einsum("bhij,bhjd->bihd", a, v).flatten(2)
        return self.head(x + self.o(y))[:, -1]


with torch.random.fork_rng():
    torch.manual_seed(43)
    model = Forecaster().eval()
inputs = torch.randn(3, 14, 4, generator=torch.Generator().manual_seed(43))
