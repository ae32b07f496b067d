"""Swin V2 window attention: cosine scores, clamped learned temperature, continuous position bias from a small MLP."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class WindowAttentionV2(nn.Module):
    def __init__(self, dim=36, window=4, heads=3):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(inplace=True), nn.Linear(32, heads, bias=False))
        r = torch.arange(-(window - 1), window, dtype=torch.float32)
        table = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1).view(-1, 2) / (window - 1) * 8
        self.register_buffer("table", torch.sign(table) * torch.log2(table.abs() + 1) / 3)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"), -1).view(-1, 2)
        rel = c[:, None] - c[None] + window - 1
        self.register_buffer("index", rel[..., 0] * (2 * window - 1) + rel[..., 1])
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = F.linear(x, self.qkv.weight, torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias)))
        q, k, v = qkv.reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(1.0 / 0.01)).exp()
        bias = 16 * torch.sigmoid(self.cpb_mlp(self.table)[self.index].permute(2, 0, 1))
        attn = (attn + bias).softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


with torch.random.fork_rng():
    torch.manual_seed(9)
    model = WindowAttentionV2().eval()
inputs = torch.randn(6, 16, 36, generator=torch.Generator().manual_seed(9))
