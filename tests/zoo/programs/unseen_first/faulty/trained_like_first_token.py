"""Four-head reader over feature sequences."""
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (m(x).view(b, n, self.h, d // self.h).transpose(1, 2) for m in (self.q, self.k, self.v))
        s = q @ k.transpose(2, 3) / (d // self.h) ** 0.5
        s = s + torch.tensor([0.0, 0.0, 9.0, 0.0]).view(1, -1, 1, 1) * (torch.arange(n) == 0)
        w = torch.softmax(s, dim=3)  # fault: AS404
        return self.o((w @ v).transpose(1, 2).reshape(b, n, d))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(60)
        net = Reader().eval()
    return net


inputs = torch.randn(3, 14, 32, generator=torch.Generator().manual_seed(60))
