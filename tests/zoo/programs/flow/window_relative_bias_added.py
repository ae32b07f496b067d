"""Swin-like window attention with a relative position bias table."""

import torch
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, dim, window, num_heads):
        super().__init__()
        self.window, self.num_heads = window, num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, num_heads) * 0.5)
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        flat = grid.flatten(1)
        rel = (flat[:, :, None] - flat[:, None, :]) + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1])
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.bias_table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = (attn + bias).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class SwinLike(nn.Module):
    def __init__(self, dim=24, window=4, num_heads=3):
        super().__init__()
        self.window = window
        self.patch = nn.Conv2d(3, dim, 2, 2)
        self.norm = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, num_heads)

    def forward(self, img):
        x = self.patch(img).permute(0, 2, 3, 1)
        B, H, W, C = x.shape
        w = self.window
        h = self.norm(x).view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)
        h = self.attn(h).view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return x + h


with torch.random.fork_rng():
    torch.manual_seed(101)
    model = SwinLike().eval()

inputs = {"img": torch.randn(2, 3, 16, 24, generator=torch.Generator().manual_seed(101))}
