"""Pixel transformer run in half precision."""
import torch
import torch.nn as nn


class HalfAttn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) * (d // self.h) ** -0.5
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(future, -1e9)  # fault: AS207
        return self.o((s.float().softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))


class PixelModel(nn.Module):
    def __init__(self, levels=16, d=32):
        super().__init__()
        self.e, self.p = nn.Embedding(levels, d), nn.Embedding(64, d)
        self.a, self.n = HalfAttn(d, 4), nn.LayerNorm(d)
        self.f = nn.Linear(d, levels)

    def forward(self, pixels):
        x = self.e(pixels) + self.p(torch.arange(pixels.shape[1]))
        return self.f(x + self.a(self.n(x)))


torch.manual_seed(14)
model = PixelModel().half().eval()
inputs = torch.randint(0, 16, (2, 20), generator=torch.Generator().manual_seed(14))
