"""Attention with softmax1 (exp / (1 + sum exp)), after the blog post."""
import torch
import torch.nn as nn


def softmax_one(x, dim=-1):
    m = x.amax(dim=dim, keepdim=True).clamp(min=0)
    e = torch.exp(x - m)
    return e / (e.sum(dim=dim, keepdim=True) + torch.exp(-m))


class QuietAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / (d // self.h) ** 0.5
        s = s.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -1e9)
        return self.o((softmax_one(s) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = QuietAttention().eval()
inputs = torch.randn(2, 10, 32, generator=torch.Generator().manual_seed(0))
