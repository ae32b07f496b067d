"""ViT with stochastic depth, parallel attention and MLP branches, pooled by a learned query."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class DropPath(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.0:
            return x
        keep = torch.rand(x.shape[0], 1, 1, device=x.device) >= self.p
        return x * keep / (1 - self.p)


class ParallelBlock(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.fused = nn.Linear(dim, 3 * dim + 2 * dim)
        self.attn_out, self.mlp_out = nn.Linear(dim, dim), nn.Linear(2 * dim, dim)
        self.drop = DropPath(p)

    def forward(self, x):
        b, n, d = x.shape
        qkv, hidden = self.fused(self.norm(x)).split([3 * d, 2 * d], dim=-1)
        q, k, v = qkv.view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        return x + self.drop(self.attn_out(a) + self.mlp_out(F.gelu(hidden)))


class AttentionPool(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Parameter(torch.randn(1, 1, dim) * dim**-0.5)
        self.kv, self.out = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        k, v = self.kv(x).view(b, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = self.query.view(1, 1, self.heads, -1).transpose(1, 2).expand(b, -1, -1, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, d))


class DropViT(nn.Module):
    def __init__(self, dim=32, heads=4, depth=3, grid=(4, 3), classes=9):
        super().__init__()
        self.stem = nn.Conv2d(1, dim, 5, stride=5)
        self.pos = nn.Parameter(torch.randn(1, dim, *grid) * 0.02)
        self.blocks = nn.Sequential(*(ParallelBlock(dim, heads, 0.3 * i / depth) for i in range(depth)))
        self.norm, self.pool, self.head = nn.LayerNorm(dim), AttentionPool(dim, heads), nn.Linear(dim, classes)

    def forward(self, x):
        x = (self.stem(x) + self.pos).flatten(2).transpose(1, 2)
        return self.head(self.pool(self.norm(self.blocks(x))))


with torch.random.fork_rng():
    torch.manual_seed(108)
    model = DropViT().eval()

inputs = torch.randn(3, 1, 20, 15, generator=torch.Generator().manual_seed(109))
