"""Denoiser attention block on feature maps."""
import torch
from torch import nn


class AttnBlock(nn.Module):
    def __init__(self, ch, heads=2):
        super().__init__()
        self.heads, self.dh = heads, ch // heads
        self.norm = nn.GroupNorm(4, ch)
        self.qkv = nn.Conv2d(ch, 3 * ch, 1)
        self.out = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, 3, self.heads, self.dh, h * w).unbind(1)
        att = torch.einsum("bhci,bhcj->bhij", q, k) * (self.dh ** 0.5)  # fault: AS301
        y = torch.einsum("bhij,bhcj->bhci", att.softmax(-1), v)
        return x + self.out(y.reshape(b, c, h, w))


class Denoiser(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.inc = nn.Conv2d(3, ch, 3, padding=1)
        self.down = nn.Conv2d(ch, ch, 3, 2, 1)
        self.mid = AttnBlock(ch)
        self.up = nn.ConvTranspose2d(ch, 3, 2, 2)

    def forward(self, x):
        return self.up(self.mid(self.down(self.inc(x))))


torch.manual_seed(5)
model = Denoiser().eval()
inputs = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(5))
# also: AS302 AS901 AS902
# note: AS501
