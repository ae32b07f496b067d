"""Small vision transformer for CIFAR with sinusoidal positions and a class token."""
import numpy as np
import torch
import torch.nn as nn


def sinusoid(n, d):
    pos = np.arange(n)[:, None]
    i = np.arange(d)[None]
    ang = pos / np.power(10000, 2 * (i // 2) / d)
    out = np.zeros((n, d))
    out[:, 0::2], out[:, 1::2] = np.sin(ang[:, 0::2]), np.cos(ang[:, 1::2])
    return torch.tensor(out, dtype=torch.float32)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, img=24, patch=4, dim=48, depth=2, heads=4, classes=10):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        n = (img // patch) ** 2 + 1
        self.register_buffer("pos_embed", sinusoid(n, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.patch_embed(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        x = x + self.pos_embed[: x.size(0)].unsqueeze(1)  # fault: AS502
        return self.head(self.blocks(x)[:, 0])


# also: AS501 AS102
with torch.random.fork_rng():
    torch.manual_seed(0)
    model = ViT().eval()
inputs = torch.randn(5, 3, 24, 24, generator=torch.Generator().manual_seed(0))
