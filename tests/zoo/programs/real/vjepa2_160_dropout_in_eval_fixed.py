"""Video transformer blocks with optional fused attention, https://github.com/facebookresearch/vjepa2/pull/160."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, num_heads=4, qkv_bias=True, attn_drop=0.0, proj_drop=0.1, use_sdpa=True):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop_prob = proj_drop
        self.proj_drop = nn.Dropout(proj_drop)
        self.use_sdpa = use_sdpa

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        if self.use_sdpa:
            p = self.proj_drop_prob if self.training else 0.0
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        else:
            attn = (q @ k.transpose(-2, -1)) * self.scale
            attn = self.attn_drop(attn.softmax(dim=-1))
            x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class VideoEncoder(nn.Module):
    def __init__(self, dim=40, depth=2, tubelet=(2, 4, 4)):
        super().__init__()
        self.patch_embed = nn.Conv3d(3, dim, tubelet, stride=tubelet)
        self.pos_embed = nn.Parameter(torch.randn(1, 18, dim) * 0.02)
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.blocks = nn.ModuleList([Attention(dim) for _ in range(depth)])

    def forward(self, clip):
        x = self.patch_embed(clip).flatten(2).transpose(1, 2) + self.pos_embed
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(160)
    model = VideoEncoder().eval()
    inputs = {"clip": torch.randn(2, 3, 4, 12, 12)}
