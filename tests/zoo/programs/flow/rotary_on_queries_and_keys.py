"""Encoder layer with rotary positions, einsum style."""

import torch
from torch import nn


def rope(x, theta=10000.0):
    _, n, _, d = x.shape
    freq = theta ** (-torch.arange(0, d, 2, device=x.device) / d)
    angle = torch.arange(n, device=x.device)[:, None, None] * freq
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack(
        (even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()), dim=-1
    )
    return turned.flatten(-2)


class RopeEncoderLayer(nn.Module):
    def __init__(self, dim=42, heads=3):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        h = self.norm(x)
        q = self.wq(h).unflatten(-1, (self.heads, -1))
        k = self.wk(h).unflatten(-1, (self.heads, -1))
        v = self.wv(h).unflatten(-1, (self.heads, -1))
        q, k = rope(q), rope(k)
        sim = torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
        out = torch.einsum("bhij,bjhd->bihd", sim.softmax(-1), v)
        return x + self.wo(out.flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(2)
    model = RopeEncoderLayer().eval()

inputs = torch.randn(3, 16, 42, generator=torch.Generator().manual_seed(2))
