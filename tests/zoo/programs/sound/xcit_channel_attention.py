"""XCiT: cross-covariance attention, channels attend to channels within each head."""

import torch
import torch.nn as nn


class XCA(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0].transpose(-2, -1), qkv[1].transpose(-2, -1), qkv[2].transpose(-2, -1)
        q = torch.nn.functional.normalize(q, dim=-1)
        k = torch.nn.functional.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature
        attn = attn.softmax(dim=-1)
        x = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj(x)


class LPI(nn.Module):
    def __init__(self, dim, grid):
        super().__init__()
        self.grid = grid
        self.conv = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)

    def forward(self, x):
        B, N, C = x.shape
        return self.conv(x.permute(0, 2, 1).reshape(B, C, *self.grid)).flatten(2).permute(0, 2, 1)


class XCiT(nn.Module):
    def __init__(self, dim=32, heads=4, grid=(3, 5), depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, stride=4)
        self.pos = nn.Parameter(torch.randn(1, grid[0] * grid[1], dim) * 0.02)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.ModuleList([
                nn.LayerNorm(dim), XCA(dim, heads), nn.LayerNorm(dim), LPI(dim, grid),
            ]))
        self.head = nn.Linear(dim, 8)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        for n1, attn, n2, lpi in self.blocks:
            x = x + attn(n1(x))
            x = x + lpi(n2(x))
        return self.head(x.mean(dim=1))


with torch.random.fork_rng():
    torch.manual_seed(74)
    model = XCiT().eval()

inputs = torch.randn(2, 3, 12, 20, generator=torch.Generator().manual_seed(75))
