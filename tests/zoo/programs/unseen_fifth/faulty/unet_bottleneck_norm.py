"""Segmentation UNet with attention in the bottleneck."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.ReLU(inplace=True))


class BottleneckAttention(nn.Module):
    def __init__(self, channels, n_heads=2):
        super().__init__()
        self.n_heads = n_heads
        self.theta = nn.Conv2d(channels, channels, 1)
        self.phi = nn.Conv2d(channels, channels, 1)
        self.g = nn.Conv2d(channels, channels, 1)
        self.W = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        shape = (b, self.n_heads, c // self.n_heads, h * w)
        theta, phi, g = (m(x).reshape(shape) for m in (self.theta, self.phi, self.g))
        f = torch.einsum('bhci,bhcj->bhij', theta, phi)
        f = f / f.abs().max() * 10  # keep the logits in a stable range  # fault: AS305
        p = F.softmax(f, dim=-1)
        y = torch.einsum('bhij,bhcj->bhci', p, g).reshape(b, c, h, w)
        return x + self.W(y)


class UNet(nn.Module):
    def __init__(self, base=12):
        super().__init__()
        self.d1, self.d2 = conv_block(1, base), conv_block(base, 2 * base)
        self.mid = BottleneckAttention(2 * base)
        self.u1 = conv_block(3 * base, base)
        self.out = nn.Conv2d(base, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        b = self.mid(b)
        up = F.interpolate(b, scale_factor=2, mode='nearest')
        return self.out(self.u1(torch.cat([a, up], 1)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(55)
        return UNet().eval()


def inputs():
    return torch.randn(3, 1, 10, 12, generator=torch.Generator().manual_seed(56))
