"""TimeSformer block: attention over time per patch, then over space per frame."""
import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        n, l, d = x.shape
        q, k, v = self.qkv(x).view(n, l, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = ((q @ k.transpose(-2, -1)) * (d // self.h) ** -0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(n, l, d))


class DividedBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.nt, self.ns, self.nm = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.time, self.space = Attn(d, h), Attn(d, h)
        self.temporal_fc = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, t, p, d = x.shape
        y = self.nt(x).permute(0, 2, 1, 3).reshape(b * p, t, d)
        y = self.temporal_fc(self.time(y)).reshape(b, p, t, d).permute(0, 2, 1, 3)
        x = x + y
        y = self.space(self.ns(x).reshape(b * t, p, d)).reshape(b, t, p, d)
        x = x + y
        return x + self.mlp(self.nm(x))


class TimeSformer(nn.Module):
    def __init__(self, d=36, h=4, t=5, hw=6):
        super().__init__()
        self.embed = nn.Linear(27, d)
        self.pos, self.tim = nn.Parameter(torch.randn(1, 1, hw, d) * .02), nn.Parameter(torch.randn(1, t, 1, d) * .02)
        self.blocks = nn.ModuleList([DividedBlock(d, h), DividedBlock(d, h)])
        self.head = nn.Linear(d, 3)

    def forward(self, patches):
        x = self.embed(patches) + self.pos + self.tim
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean((1, 2)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(12)
        return TimeSformer().eval()


inputs = torch.randn(2, 5, 6, 27, generator=torch.Generator().manual_seed(13))
