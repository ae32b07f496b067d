"""Conformer-like encoder with a symmetric ALiBi penalty on the distance in time; half of the heads look to one side."""
import torch
import torch.nn as nn


class DecayAttention(nn.Module):
    def __init__(self, d=48, h=6):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("slopes", torch.tensor([2.0 ** (-8 * (i + 1) / h) for i in range(h)]).view(h, 1, 1))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        rel = (torch.arange(n)[None] - torch.arange(n)[:, None]).float()
        bias = -self.slopes * rel.abs()
        side = torch.zeros(self.h, n, n)
        side[: self.h // 2] = side[: self.h // 2].masked_fill(rel > 0, float("-inf"))
        s = q @ k.mT / q.size(-1) ** 0.5 + bias + side
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


with torch.random.fork_rng():
    torch.manual_seed(69)
    model = DecayAttention().eval()
inputs = torch.randn(2, 19, 48, generator=torch.Generator().manual_seed(69))
