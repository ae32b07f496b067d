"""Spatial attention block of a pixel diffusion U-Net (1x1 convolutions, channels first)."""
import torch
import torch.nn as nn


def Normalize(ch):
    return nn.GroupNorm(num_groups=8, num_channels=ch, eps=1e-6, affine=True)


class AttnBlock(nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.in_channels = in_channels
        self.norm = Normalize(in_channels)
        self.q = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.k = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.v = nn.Conv2d(in_channels, in_channels, kernel_size=1)
        self.proj_out = nn.Conv2d(in_channels, in_channels, kernel_size=1)

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)
        k = k.reshape(b, c, h * w)
        w_ = torch.bmm(q, k)
        w_ = w_ * (int(c) ** 0.5)  # fault: AS301
        w_ = torch.nn.functional.softmax(w_, dim=2)
        v = v.reshape(b, c, h * w)
        h_ = torch.bmm(v, w_.permute(0, 2, 1)).reshape(b, c, h, w)
        return x + self.proj_out(h_)


# also: AS302 AS403 AS901 AS902
class ResnetBlock(nn.Module):
    def __init__(self, ch, temb):
        super().__init__()
        self.norm, self.conv, self.emb = Normalize(ch), nn.Conv2d(ch, ch, 3, padding=1), nn.Linear(temb, ch)

    def forward(self, x, t):
        return x + self.conv(nn.functional.silu(self.norm(x)) + self.emb(t)[:, :, None, None])


class Mid(nn.Module):
    def __init__(self, ch=32, temb=12):
        super().__init__()
        self.block_1, self.attn_1, self.block_2 = ResnetBlock(ch, temb), AttnBlock(ch), ResnetBlock(ch, temb)

    def forward(self, x, t):
        return self.block_2(self.attn_1(self.block_1(x, t)), t)


with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Mid().eval()
_g = torch.Generator().manual_seed(0)
inputs = (torch.randn(2, 32, 5, 6, generator=_g), torch.randn(2, 12, generator=_g))
