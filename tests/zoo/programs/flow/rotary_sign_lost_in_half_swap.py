"""Bare rotary attention as written for a course."""

import math

import torch


def swap_halves(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([b, a], dim=-1)  # fault: AS503


class RotaryAttention(torch.nn.Module):
    def __init__(self, width, n_heads, max_length=50):
        super().__init__()
        self.n_heads = n_heads
        self.size = width // n_heads
        self.W_q = torch.nn.Linear(width, width)
        self.W_k = torch.nn.Linear(width, width)
        self.W_v = torch.nn.Linear(width, width)
        self.W_o = torch.nn.Linear(width, width)
        theta = 1 / 10000 ** (torch.arange(0, self.size, 2) / self.size)
        m = torch.arange(max_length)[:, None] * torch.cat([theta, theta])
        self.register_buffer("cos", m.cos())
        self.register_buffer("sin", m.sin())

    def rotate(self, x):
        length = x.size(2)
        return x * self.cos[:length] + swap_halves(x) * self.sin[:length]  # fault: AS503

    def forward(self, x):
        batch, length, width = x.size()
        Q = self.W_q(x).view(batch, length, self.n_heads, self.size).transpose(1, 2)
        K = self.W_k(x).view(batch, length, self.n_heads, self.size).transpose(1, 2)
        V = self.W_v(x).view(batch, length, self.n_heads, self.size).transpose(1, 2)
        Q, K = self.rotate(Q), self.rotate(K)
        scores = Q.matmul(K.transpose(-1, -2)) / math.sqrt(self.size)
        context = scores.softmax(dim=-1).matmul(V)
        return self.W_o(context.transpose(1, 2).contiguous().view(batch, length, width))


with torch.random.fork_rng():
    torch.manual_seed(50)
    model = RotaryAttention(56, 4).eval()

inputs = torch.randn(2, 23, 56, generator=torch.Generator().manual_seed(50))
