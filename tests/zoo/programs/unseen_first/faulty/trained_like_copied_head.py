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
        w = torch.softmax(q @ k.transpose(2, 3) / (d // self.h) ** 0.5, dim=3)  # fault: AS402
        return self.o((w @ v).transpose(1, 2).reshape(b, n, d))  # fault: AS402


def model():
    with torch.random.fork_rng():
        torch.manual_seed(60)
        net = Reader().eval()
    with torch.no_grad():
        for m in (net.q, net.k, net.v):
            m.weight[24:] = m.weight[:8]
            m.bias[24:] = m.bias[:8]
    return net


inputs = torch.randn(3, 14, 32, generator=torch.Generator().manual_seed(60))
