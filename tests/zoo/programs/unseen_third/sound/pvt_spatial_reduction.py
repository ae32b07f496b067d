"""Pyramid vision transformer: keys and values from a strided convolution, so there are fewer keys than queries."""
import torch
import torch.nn as nn


class SRAttention(nn.Module):
    def __init__(self, dim=32, heads=4, sr=2):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.q, self.kv, self.proj = nn.Linear(dim, dim), nn.Linear(dim, dim * 2), nn.Linear(dim, dim)
        self.sr, self.norm = nn.Conv2d(dim, dim, sr, sr), nn.LayerNorm(dim)

    def forward(self, x, H, W):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.heads, C // self.heads).permute(0, 2, 1, 3)
        x_ = self.sr(x.permute(0, 2, 1).reshape(B, C, H, W)).reshape(B, C, -1).permute(0, 2, 1)
        kv = self.kv(self.norm(x_)).reshape(B, -1, 2, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        k, v = kv[0], kv[1]
        attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Stage(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed, self.pos, self.norm, self.attn = nn.Conv2d(3, d, 3, 2, 1), nn.Parameter(torch.randn(1, 48, d) * 0.1), nn.LayerNorm(d), SRAttention(d)

    def forward(self, img):
        x = self.embed(img)
        H, W = x.shape[2:]
        x = x.flatten(2).transpose(1, 2) + self.pos[:, : H * W]
        return x + self.attn(self.norm(x), H, W)


with torch.random.fork_rng():
    torch.manual_seed(55)
    model = Stage().eval()
inputs = torch.randn(2, 3, 12, 16, generator=torch.Generator().manual_seed(55))
