"""Forecaster that keeps its dropout on at prediction time, to sample an uncertainty."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MCDropout(nn.Dropout):
    def forward(self, x):
        return F.dropout(x, self.p, training=True)


class BayesianAttention(nn.Module):
    def __init__(self, d, h, p):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.drop = MCDropout(p)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d / self.h), dim=-1)
        return self.o((self.drop(w) @ v).transpose(1, 2).reshape(b, n, d))


class MCForecaster(nn.Module):
    def __init__(self, channels=5, d=30, h=3, horizon=4, history=24, p=0.15):
        super().__init__()
        self.embed = nn.Linear(channels, d)
        self.pos = nn.Parameter(torch.randn(history, d) * 0.02)
        self.attn, self.norm = BayesianAttention(d, h, p), nn.LayerNorm(d)
        self.head = nn.Sequential(nn.Linear(d, 40), nn.ReLU(), MCDropout(p), nn.Linear(40, horizon))

    def forward(self, series):
        x = self.embed(series) + self.pos[: series.shape[1]]
        x = self.norm(x + self.attn(x))
        return self.head(x.mean(dim=1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(34)
        return MCForecaster().eval()


inputs = torch.randn(3, 20, 5, generator=torch.Generator().manual_seed(35))
expect = {"dropout": "on in eval"}
