"""Strictly causal attention for a masked autoregressive density model."""
import torch
import torch.nn as nn


class StrictAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.kqv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        k, q, v = self.kqv(x).view(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        dots = q @ k.transpose(-2, -1) / (D // self.heads) ** 0.5
        dots = dots.masked_fill(torch.ones(N, N, device=x.device).triu(0).bool(), -1e9)  # fault: AS203
        attn = dots.softmax(dim=-1)  # fault: AS203
        return self.out((attn @ v).transpose(1, 2).reshape(B, N, D))


class Density(nn.Module):
    def __init__(self, feats=5, dim=24):
        super().__init__()
        self.inp, self.pos = nn.Linear(feats, dim), nn.Parameter(torch.randn(1, 30, dim) * 0.1)
        self.attn = StrictAttention(dim)
        self.head = nn.Linear(dim, 2 * feats)

    def forward(self, x):
        h = self.inp(x) + self.pos[:, : x.size(1)]
        return self.head(self.attn(h))


torch.manual_seed(0)
model = Density().eval()
inputs = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
# also: AS201, AS212
