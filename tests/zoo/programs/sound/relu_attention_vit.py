"""ViT block with ReLU attention divided by the number of tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ReluAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.relu((q * self.scale) @ k.transpose(-2, -1)) / N
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class ReluViT(nn.Module):
    def __init__(self, img=24, patch=6, dim=36, heads=3, depth=2, classes=7):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(torch.randn(1, (img // patch) ** 2, dim) * 0.02)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.ModuleDict({
                "n1": nn.LayerNorm(dim),
                "attn": ReluAttention(dim, heads),
                "n2": nn.LayerNorm(dim),
                "mlp": nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
            }))
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.pos
        for blk in self.blocks:
            x = x + blk["attn"](blk["n1"](x))
            x = x + blk["mlp"](blk["n2"](x))
        return self.head(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(14)
        return ReluViT().eval()


inputs = {"images": torch.randn(2, 3, 24, 24, generator=torch.Generator().manual_seed(5))}
