"""Shifted-window block pair on a small feature map."""

import torch
import torch.nn as nn


def window_partition(x, window_size):
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(1, 3, 0, 2, 4, 5).contiguous().view(-1, window_size * window_size, C)  # fault: AS102|AS211


def window_reverse(windows, window_size, H, W):
    B = windows.shape[0] // (H * W // window_size // window_size)
    x = windows.view(B, H // window_size, W // window_size, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        side = 2 * window_size - 1
        self.relative_position_bias_table = nn.Parameter(torch.zeros(side * side, num_heads))
        coords = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0) + window_size - 1
        self.register_buffer("relative_position_index", rel[..., 0] * side + rel[..., 1])
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.5)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(N, N, -1)
        attn = attn + bias.permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)  # fault: AS102|AS211
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim, resolution, num_heads, window_size, shift_size):
        super().__init__()
        self.resolution, self.window_size, self.shift_size = resolution, window_size, shift_size
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window_size, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        mask = None
        if shift_size:
            H, W = resolution
            img = torch.zeros(1, H, W, 1)
            cuts = (slice(0, -window_size), slice(-window_size, -shift_size), slice(-shift_size, None))
            for number, (h, w) in enumerate((h, w) for h in cuts for w in cuts):
                img[:, h, w, :] = number
            regions = window_partition(img, window_size).squeeze(-1)
            mask = (regions.unsqueeze(1) - regions.unsqueeze(2)).ne(0).float() * -100.0
        self.register_buffer("attn_mask", mask)

    def forward(self, x):
        H, W = self.resolution
        shortcut = x
        x = self.norm1(x)
        if self.shift_size:
            x = torch.roll(x, (-self.shift_size, -self.shift_size), dims=(1, 2))
        windows = self.attn(window_partition(x, self.window_size), mask=self.attn_mask)  # fault: AS102|AS211
        x = window_reverse(windows, self.window_size, H, W)
        if self.shift_size:
            x = torch.roll(x, (self.shift_size, self.shift_size), dims=(1, 2))
        x = shortcut + x
        return x + self.mlp(self.norm2(x))


class TinySwin(nn.Module):
    def __init__(self, dim=24, resolution=(8, 12), window=4):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 2, 2)
        self.blocks = nn.Sequential(SwinBlock(dim, resolution, 3, window, 0), SwinBlock(dim, resolution, 3, window, window // 2))
        self.head = nn.Linear(dim, 10)

    def forward(self, images):
        x = self.patch(images).permute(0, 2, 3, 1)
        return self.head(self.blocks(x).mean((1, 2)))


torch.manual_seed(16)
model = TinySwin().eval()
inputs = torch.randn(2, 3, 16, 24)
# also: AS102 AS211
