"""Cosine window attention with clamped learned scale and continuous position bias (Swin V2)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class WindowAttentionV2(nn.Module):
    def __init__(self, dim=36, window=4, heads=3):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((heads, 1, 1))))
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 32), nn.ReLU(inplace=True), nn.Linear(32, heads, bias=False))
        r = torch.arange(-(window - 1), window, dtype=torch.float32)
        tab = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1) / (window - 1) * 8
        tab = torch.sign(tab) * torch.log2(tab.abs() + 1.0) / math.log2(8)
        self.register_buffer("relative_coords_table", tab.flatten(0, 1), persistent=False)
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        rel = c[:, :, None] - c[:, None] + window - 1
        self.register_buffer("relative_position_index", rel[0] * (2 * window - 1) + rel[1], persistent=False)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B_, N, C = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, bias).reshape(B_, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * torch.clamp(self.logit_scale, max=math.log(1. / 0.01)).exp()
        rpb = self.cpb_mlp(self.relative_coords_table)[self.relative_position_index.view(-1)].view(N, N, -1)
        attn = attn + 16 * torch.sigmoid(rpb.permute(2, 0, 1)).unsqueeze(0)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B_, N, C))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(24)
        return WindowAttentionV2().eval()


inputs = torch.randn(5, 16, 36, generator=torch.Generator().manual_seed(25))
