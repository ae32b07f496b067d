"""Diffusion transformer block with adaLN-Zero: the branch starts switched off."""

import torch
from torch import nn
import torch.nn.functional as F


class DiTBlock(nn.Module):
    def __init__(self, d=32, heads=4, cond=12):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ada = nn.Linear(cond, 3 * d)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x, c):
        b, n, d = x.shape
        shift, scale, gate = self.ada(F.silu(c)).unsqueeze(1).chunk(3, -1)
        h = self.norm(x) * (1 + scale) + shift
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        return x + gate * self.proj(y)


class DiT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.pos = nn.Linear(8, 32), nn.Parameter(torch.randn(10, 32) * 0.2)
        self.blocks = nn.ModuleList([DiTBlock(), DiTBlock()])
        self.last = nn.Linear(32, 8)

    def forward(self, patches, cond):
        x = self.patch(patches) + self.pos
        for block in self.blocks:
            x = block(x, cond)
        return self.last(x)


torch.manual_seed(13)
model = DiT().eval()
inputs = {"patches": torch.randn(3, 10, 8), "cond": torch.randn(3, 12)}
