"""Swin v2 stage: cosine attention with a learned temperature, continuous bias, shifted windows."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws * ws, C)


def window_reverse(windows, ws, H, W):
    C = windows.shape[-1]
    x = windows.view(-1, H // ws, W // ws, ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, H, W, C)


class WindowAttention(nn.Module):
    def __init__(self, dim, ws, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(num_heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(inplace=True), nn.Linear(32, num_heads, bias=False))
        rel = torch.arange(-(ws - 1), ws).float()
        table = torch.stack(torch.meshgrid(rel, rel, indexing="ij"), -1) * 8 / (ws - 1)
        table = torch.sign(table) * torch.log2(table.abs() + 1.0) / 3.0
        self.register_buffer("coords_table", table.view(-1, 2), persistent=False)
        coords = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        diff = coords[:, :, None] - coords[:, None, :] + ws - 1
        self.register_buffer("index", diff[0] * (2 * ws - 1) + diff[1], persistent=False)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(100.0)).exp()
        bias = self.cpb_mlp(self.coords_table)[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + 16 * torch.sigmoid(bias)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim, size, ws, heads, shift):
        super().__init__()
        self.size, self.ws, self.shift = size, ws, shift
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, ws, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        mask = None
        if shift > 0:
            img = torch.zeros(1, *size, 1)
            parts = (slice(0, -ws), slice(-ws, -shift), slice(-shift, None))
            for n, (h, w) in enumerate((h, w) for h in parts for w in parts):
                img[:, h, w, :] = n
            win = window_partition(img, ws).squeeze(-1)
            diff = win[:, None, :] - win[:, :, None]
            mask = torch.zeros_like(diff).masked_fill(diff != 0, -100.0)
        self.register_buffer("attn_mask", mask)

    def forward(self, x):
        H, W = self.size
        B, L, C = x.shape
        y = x.view(B, H, W, C)
        if self.shift > 0:
            y = torch.roll(y, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = window_reverse(self.attn(window_partition(y, self.ws), self.attn_mask), self.ws, H, W)
        if self.shift > 0:
            y = torch.roll(y, shifts=(self.shift, self.shift), dims=(1, 2))
        x = x + self.norm1(y.reshape(B, L, C))
        return x + self.norm2(self.mlp(x))


class SwinStage(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 24, 2, stride=2)
        self.blocks = nn.Sequential(SwinBlock(24, (8, 12), 4, 3, 0), SwinBlock(24, (8, 12), 4, 3, 2))
        self.head = nn.Linear(24, 5)

    def forward(self, img):
        return self.head(self.blocks(self.embed(img).flatten(2).transpose(1, 2)).mean(1))


with torch.random.fork_rng():
    torch.manual_seed(2)
    model = SwinStage().eval()

inputs = torch.randn(2, 3, 16, 24, generator=torch.Generator().manual_seed(0))
