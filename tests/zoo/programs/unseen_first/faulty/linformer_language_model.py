"""Language model layer with keys and values projected along the sequence."""
import torch
from torch import nn


class LinformerAttention(nn.Module):
    def __init__(self, d=32, h=4, length=20, short=6):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.E = nn.Parameter(torch.randn(length, short) / length**0.5)
        self.F = nn.Parameter(torch.randn(length, short) / length**0.5)

    def forward(self, x):
        b, n, d = x.shape
        k = torch.einsum("bnd,ns->bsd", self.k(x), self.E[:n])  # fault: AS201
        v = torch.einsum("bnd,ns->bsd", self.v(x), self.F[:n])  # fault: AS201
        q, k, v = (t.reshape(b, -1, self.h, d // self.h).transpose(1, 2) for t in (self.q(x), k, v))
        w = (q @ k.transpose(-1, -2) / (d // self.h) ** 0.5).softmax(-1)  # fault: AS201
        return self.o((w @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(2)
model = LinformerAttention().eval()
inputs = torch.randn(3, 20, 32)
expect = {"causal": True}
