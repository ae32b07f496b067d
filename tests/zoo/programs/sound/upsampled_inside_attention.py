"""Pooled attention over a map: its output projection is a transposed convolution."""
import torch
from torch import nn


class PooledAttention(nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.down = nn.Conv2d(width, width, 2, 2)
        self.qkv = nn.Linear(width, 3 * width)
        self.up = nn.ConvTranspose2d(width, width, 2, 2)

    def forward(self, x):
        b, c, h, w = x.shape
        t = self.down(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(t).view(b, -1, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, -1, c)
        return x + self.up(y.transpose(1, 2).reshape(b, c, h // 2, w // 2))


class Upsampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.Sequential(PooledAttention(), PooledAttention())
        self.head = nn.Conv2d(16, 3, 1)

    def forward(self, image):
        return self.head(self.blocks(self.stem(image)))


def model():
    torch.manual_seed(3)
    return Upsampler().eval()


inputs = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(5))
