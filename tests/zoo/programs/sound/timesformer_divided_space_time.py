"""TimeSformer: attention over time with space folded into the batch, then over space with time folded."""

import torch
from torch import einsum, nn


def fold_time(x, f):
    b, n, d = x.shape
    return x.view(b, f, n // f, d).transpose(1, 2).reshape(b * (n // f), f, d)


def unfold_time(x, b):
    p, f, d = x.shape[0] // b, x.shape[1], x.shape[2]
    return x.view(b, p, f, d).transpose(1, 2).reshape(b, f * p, d)


class Attention(nn.Module):
    def __init__(self, dim, heads, dim_head):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1))
        attn = (einsum("b h i d, b h j d -> b h i j", q, k) * self.scale).softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class TimeSformer(nn.Module):
    def __init__(self, dim=30, frames=4, size=(8, 12), patch=4, depth=2, classes=7):
        super().__init__()
        self.frames, self.grid = frames, (size[0] // patch) * (size[1] // patch)
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, frames * self.grid, dim) * 0.1)
        self.time = nn.ModuleList(Attention(dim, 3, 10) for _ in range(depth))
        self.space = nn.ModuleList(Attention(dim, 3, 10) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 60), nn.GELU(), nn.Linear(60, dim)) for _ in range(depth)
        )
        self.to_out = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, video):
        b, f = video.shape[:2]
        x = self.patch(video.flatten(0, 1)).flatten(2).transpose(1, 2)
        x = x.reshape(b, f * self.grid, -1) + self.pos
        for time, space, ff in zip(self.time, self.space, self.ff):
            x = x + unfold_time(time(fold_time(x, f)), b)
            frames = x.reshape(b * f, self.grid, -1)
            x = x + space(frames).reshape(x.shape)
            x = x + ff(x)
        return self.to_out(x.mean(dim=1))


with torch.random.fork_rng():
    torch.manual_seed(94)
    model = TimeSformer().eval()

inputs = torch.randn(2, 4, 3, 8, 12, generator=torch.Generator().manual_seed(95))
