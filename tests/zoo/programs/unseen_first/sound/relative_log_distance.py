"""Music decoder with a logarithmic distance bias inside the scores."""
import torch
from torch import nn


class LogDistance(nn.Module):
    def __init__(self, d=30, h=3):
        super().__init__()
        self.h = h
        self.strength = nn.Parameter(torch.rand(h) + 0.5)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        gap = (torch.arange(n)[:, None] - torch.arange(n)).clamp(min=0)
        bias = -self.strength[:, None, None] * torch.log(gap + 1.0)
        s = q @ k.mT / (d // self.h) ** 0.5 + bias
        s = s.masked_fill(torch.ones(n, n).triu(1) == 1, float("-inf"))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(38)
model = LogDistance().eval()
inputs = torch.randn(2, 12, 30)
expect = {"causal": True}
