"""Capped attention of a layer that hands all options to a kernel module of its own."""

import torch
from torch import nn


class Scores(nn.Module):
    def forward(self, q, k, bias, **options):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        cap = options["softcap"]
        return cap * torch.tanh(scores / cap) + bias


class Capped(nn.Module):
    def __init__(self, width=40, heads=5, softcap=3.0):
        super().__init__()
        self.heads, self.softcap = heads, softcap
        self.scores = Scores()
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        future = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        s = self.scores(q, k, future, softcap=self.softcap)
        y = torch.einsum("bhqk,bhkd->bqhd", torch.softmax(s, dim=-1), v)
        return self.out(y.flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(52)
    model = Capped().eval()
inputs = torch.randn(2, 10, 40, generator=torch.Generator().manual_seed(52)) * 3
