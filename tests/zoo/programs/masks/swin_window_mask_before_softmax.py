"""Shifted-window attention on a feature map, masked between wrapped regions."""

import torch
from torch import nn


def partition(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def reverse(win, w, b, h, wd):
    x = win.view(b, h // w, wd // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, wd, -1)


class ShiftedWindowBlock(nn.Module):
    def __init__(self, dim=24, heads=3, window=4, shift=2, size=(8, 12)):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.randn(heads, window**2, window**2) * 0.02)
        region = torch.zeros(1, *size, 1)
        cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        n = 0
        for a in cuts:
            for b in cuts:
                region[:, a, b] = n
                n += 1
        ids = partition(region, window).squeeze(-1)
        self.register_buffer("same", (ids[:, None, :] == ids[:, :, None]))

    def forward(self, x):
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        y = partition(y, self.window)
        n = self.window**2
        q, k, v = self.qkv(y).view(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + self.rel
        attn = attn.view(b, -1, self.heads, n, n).masked_fill(~self.same[None, :, None], -100.0)
        attn = attn.view(-1, self.heads, n, n).softmax(dim=-1)
        y = (attn @ v).transpose(1, 2).reshape(-1, n, c)
        y = reverse(self.proj(y), self.window, b, h, w)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


with torch.random.fork_rng():
    torch.manual_seed(18)
    model = ShiftedWindowBlock().eval()

inputs = torch.randn(2, 8, 12, 24, generator=torch.Generator().manual_seed(18))
