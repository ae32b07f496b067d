"""Encoder over sensor readings with a precomputed position table."""

import math

import torch
import torch.nn as nn


def make_table(n, d):
    t = torch.zeros(1, n, d)
    for p in range(n):
        for i in range(0, d, 2):
            t[0, p, i] = math.sin(p / 10000 ** (i / d))
            t[0, p, i + 1] = math.cos(p / 10000 ** (i / d))
    return t


class SensorEncoder(nn.Module):
    def __init__(self, channels=6, d=24, h=2, n_max=100):
        super().__init__()
        self.inp = nn.Linear(channels, d)
        self.register_buffer("table", make_table(n_max, d))
        self.to_q = nn.Linear(d, d)
        self.to_k = nn.Linear(d, d)
        self.to_v = nn.Linear(d, d)
        self.fc = nn.Linear(d, d)
        self.h = h

    def heads(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.h, d // self.h).transpose(1, 2).reshape(b * self.h, t, d // self.h)

    def forward(self, x):
        x = self.inp(x)
        b, t, d = x.shape
        x = x + self.table[:, t]  # fault: AS502|AS501
        q, k, v = self.heads(self.to_q(x)), self.heads(self.to_k(x)), self.heads(self.to_v(x))
        w = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(d // self.h)
        w = torch.softmax(w, dim=2)
        y = torch.bmm(w, v).view(b, self.h, t, d // self.h).transpose(1, 2).reshape(b, t, d)
        return x + self.fc(y)


with torch.random.fork_rng():
    torch.manual_seed(77)
    model = SensorEncoder().eval()

inputs = {"x": torch.randn(3, 19, 6, generator=torch.Generator().manual_seed(77))}
# also: AS501
