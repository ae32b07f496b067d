"""Local attention: each pixel attends to its 3x3 neighbourhood, borders masked."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class NeighbourhoodAttention(nn.Module):
    def __init__(self, dim=32, heads=4, ks=3):
        super().__init__()
        self.heads, self.ks, self.scale = heads, ks, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Conv2d(dim, 3 * dim, 1), nn.Conv2d(dim, dim, 1)
        self.rpb = nn.Parameter(torch.randn(heads, ks * ks, 1) * 0.1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(x).chunk(3, 1)
        pad = self.ks // 2
        q = q.reshape(b, self.heads, -1, 1, h * w)
        k = F.unfold(k, self.ks, padding=pad).reshape(b, self.heads, c // self.heads, self.ks**2, h * w)
        v = F.unfold(v, self.ks, padding=pad).reshape(b, self.heads, c // self.heads, self.ks**2, h * w)
        inside = F.unfold(torch.ones(1, 1, h, w), self.ks, padding=pad).reshape(1, 1, self.ks**2, h * w) > 0
        att = (q * k).sum(2) * self.scale + self.rpb
        att = att.masked_fill(~inside, float("-inf")).softmax(dim=2)
        return x + self.proj((att.unsqueeze(2) * v).sum(3).reshape(b, c, h, w))


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = NeighbourhoodAttention().eval()
inputs = torch.randn(2, 32, 5, 6, generator=torch.Generator().manual_seed(8))
