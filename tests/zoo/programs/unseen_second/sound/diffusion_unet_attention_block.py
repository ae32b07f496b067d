"""Self-attention at the bottleneck of a small denoising UNet (B, C, H, W)."""

import math

import torch
import torch.nn as nn


class AttentionBlock(nn.Module):
    def __init__(self, channels, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.GroupNorm(4, channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        flat = x.reshape(b, c, h * w)
        qkv = self.qkv(self.norm(flat))
        q, k, v = qkv.reshape(b * self.num_heads, -1, h * w).chunk(3, dim=1)
        ch = q.shape[1]
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = torch.einsum("bts,bcs->bct", weight, v)
        a = a.reshape(b, c, h * w)
        return (flat + self.proj_out(a)).reshape(b, c, h, w)


class Bottleneck(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.time = nn.Linear(8, channels)
        self.conv_in = nn.Conv2d(4, channels, 3, padding=1)
        self.attn = AttentionBlock(channels)
        self.conv_out = nn.Conv2d(channels, 4, 3, padding=1)

    def forward(self, x, t):
        angles = t[:, None].float() * torch.exp(-torch.arange(4) * 1.5)
        emb = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        h = torch.nn.functional.silu(self.conv_in(x) + emb[:, :, None, None])
        return self.conv_out(self.attn(h))


torch.manual_seed(30)
model = Bottleneck().eval()
inputs = {"x": torch.randn(3, 4, 5, 7), "t": torch.tensor([1, 40, 400])}
