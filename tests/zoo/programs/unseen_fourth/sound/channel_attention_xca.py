"""Denoising block with attention over channels (covariance) and a temperature."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChannelAttention(nn.Module):
    def __init__(self, c=24, heads=3):
        super().__init__()
        self.heads = heads
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Conv2d(c, 3 * c, 1)
        self.dw = nn.Conv2d(3 * c, 3 * c, 3, padding=1, groups=3 * c)
        self.out = nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.dw(self.qkv(x)).view(b, 3, self.heads, c // self.heads, h * w).unbind(1)
        a = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature
        return self.out((a.softmax(-1) @ v).view(b, c, h, w))


class Restore(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.i, self.a, self.o = nn.Conv2d(3, c, 3, padding=1), ChannelAttention(c), nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x):
        f = self.i(x)
        return x + self.o(f + self.a(f))


def model():
    torch.manual_seed(13)
    return Restore().eval()


inputs = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(13))
# note: AS501
