"""Image encoder with q, k and v interleaved channel by channel."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.q_norm = nn.LayerNorm(self.head_dim)
        self.k_norm = nn.LayerNorm(self.head_dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, self.num_heads, self.head_dim, 3).permute(4, 0, 2, 1, 3)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        x = F.scaled_dot_product_attention(q, k, v)
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class EncoderBlock(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ImageEncoder(nn.Module):
    def __init__(self, img=20, patch=5, dim=42, num_heads=6, depth=2, registers=2):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, dim, kernel_size=patch, stride=patch)
        self.pos_embed = nn.Parameter(torch.randn(1, (img // patch) ** 2, dim) * 0.02)
        self.reg = nn.Parameter(torch.randn(1, registers, dim) * 0.02)
        self.blocks = nn.Sequential(*[EncoderBlock(dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, pixels):
        x = self.patch_embed(pixels).flatten(2).transpose(1, 2) + self.pos_embed
        x = torch.cat([self.reg.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.norm(self.blocks(x))
        return x[:, self.reg.shape[1] :].mean(dim=1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(50)
        return ImageEncoder().eval()


def inputs():
    return {"pixels": torch.rand(3, 1, 20, 20, generator=torch.Generator().manual_seed(51))}
