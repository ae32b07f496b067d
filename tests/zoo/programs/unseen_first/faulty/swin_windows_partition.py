"""Shifted-window attention on a feature map, with relative position bias."""
import torch
import torch.nn as nn


def window_partition(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c)
    return x.permute(1, 3, 2, 4, 0, 5).reshape(-1, w * w, c)  # fault: AS102


def window_reverse(windows, w, h, wd):
    b = windows.shape[0] // ((h // w) * (wd // w))
    x = windows.view(b, h // w, wd // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, wd, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, w, heads):
        super().__init__()
        self.heads, self.w = heads, w
        self.scale = (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.randn((2 * w - 1) ** 2, heads) * 0.5)
        yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        rel = (yx[:, :, None] - yx[:, None, :]) + w - 1
        self.register_buffer("index", rel[0] * (2 * w - 1) + rel[1])
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask):
        bw, n, c = x.shape
        q, k, v = self.qkv(x).view(bw, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index].permute(2, 0, 1)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.view(bw // nw, nw, self.heads, n, n) + mask[None, :, None]
            attn = attn.view(bw, self.heads, n, n)
        attn = attn.softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(bw, n, c))


class SwinStage(nn.Module):
    def __init__(self, dim=24, size=9, w=3, heads=2):
        super().__init__()
        self.size, self.w, self.shift = size, w, 1
        self.embed = nn.Conv2d(3, dim, 2, 2)
        self.plain, self.shifted = WindowAttention(dim, w, heads), WindowAttention(dim, w, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        region = torch.zeros(1, size, size, 1)
        cuts = (slice(0, -w), slice(-w, -self.shift), slice(-self.shift, None))
        for i, a in enumerate(cuts):
            for j, b in enumerate(cuts):
                region[:, a, b] = 3 * i + j
        ids = window_partition(region, w).squeeze(-1)
        self.register_buffer("mask", (ids[:, None] != ids[:, :, None]).float() * -100.0)

    def forward(self, image):
        x = self.embed(image).permute(0, 2, 3, 1)
        s = self.size
        x = x + window_reverse(self.plain(window_partition(self.n1(x), self.w), None), self.w, s, s)
        y = torch.roll(self.n2(x), (-self.shift, -self.shift), dims=(1, 2))
        y = window_reverse(self.shifted(window_partition(y, self.w), self.mask), self.w, s, s)
        return x + torch.roll(y, (self.shift, self.shift), dims=(1, 2))


torch.manual_seed(23)
model = SwinStage().eval()
inputs = torch.rand(2, 3, 18, 18)
