"""Small ViT; projections are initialised with a std that depends on the width."""

import torch
from torch import nn
import torch.nn.functional as F


class ViTAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        std = 1.0 / dim**4
        nn.init.trunc_normal_(self.qkv.weight, std=std, a=-2 * std, b=2 * std)  # fault: AS901
        nn.init.zeros_(self.qkv.bias)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class ViT(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2, patches=16, classes=6):
        super().__init__()
        self.stem = nn.Conv2d(1, dim, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.pos = nn.Parameter(torch.randn(1, patches + 1, dim) * 0.2)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attns = nn.ModuleList(ViTAttention(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, image):
        x = self.stem(image).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for norm, attn in zip(self.norms, self.attns):
            x = x + attn(norm(x))
        return self.head(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(92)
    model = ViT().eval()

inputs = torch.randn(2, 1, 16, 16, generator=torch.Generator().manual_seed(92))
# also: AS902
