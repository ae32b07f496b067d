"""Lidar sweep encoder: rotary code along the azimuth, tokens kept before heads."""
import torch
import torch.nn as nn


def build_angles(n, dim, base=100.0):
    freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    return torch.outer(torch.arange(n, dtype=torch.float32), freq)


def apply_rope(x):
    # x: (batch, seq, heads, dim)
    ang = build_angles(x.shape[2], x.shape[-1]).to(x)  # fault: AS503
    cos, sin = ang.cos(), ang.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class SweepAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)

    def forward(self, x):
        B, N, W = x.shape
        q = apply_rope(self.q(x).view(B, N, self.heads, -1))
        k = apply_rope(self.k(x).view(B, N, self.heads, -1))
        v = self.v(x).view(B, N, self.heads, -1)
        w = torch.einsum("bnhd,bmhd->bhnm", q, k).mul(q.size(-1) ** -0.5).softmax(-1)
        return self.o(torch.einsum("bhnm,bmhd->bnhd", w, v).reshape(B, N, W))


class SweepNet(nn.Module):
    def __init__(self, beams=16, width=40, heads=4):
        super().__init__()
        self.stem = nn.Linear(beams, width)
        self.att1, self.att2 = SweepAttention(width, heads), SweepAttention(width, heads)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.seg = nn.Linear(width, 3)

    def forward(self, sweep):
        x = self.stem(sweep)
        x = x + self.att1(self.n1(x))
        x = x + self.att2(self.n2(x))
        return self.seg(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(13)
        return SweepNet().eval()


inputs = torch.randn(2, 18, 16, generator=torch.Generator().manual_seed(12))
