"""Attention over points; context comes back feature-major."""
import torch
from torch import nn

class PointAttention(nn.Module):
    def __init__(self, c=16, h=4):
        super().__init__()
        self.h = h
        self.q = nn.Conv1d(c, c, 1)
        self.k = nn.Conv1d(c, c, 1)
        self.v = nn.Conv1d(c, c, 1)
        self.o = nn.Conv1d(c, c, 1)

    def forward(self, x):
        b, c, n = x.shape
        q = self.q(x).view(b, self.h, c // self.h, n)
        k = self.k(x).view(b, self.h, c // self.h, n)
        v = self.v(x).view(b, self.h, c // self.h, n)
        a = torch.softmax(q.transpose(2, 3) @ k / (c // self.h) ** 0.5, dim=-1)
        y = a @ v.transpose(2, 3)
        return x + self.o(y.reshape(b, c, n))  # fault: AS103

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = PointAttention().eval()
inputs = torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(1))
