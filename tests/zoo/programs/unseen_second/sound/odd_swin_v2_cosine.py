"""Window attention with cosine scores and a clamped log temperature (Swin v2)."""

import math
import torch
from torch import nn
import torch.nn.functional as F


class CosineWindow(nn.Module):
    def __init__(self, dim=60, heads=3, side=4):
        super().__init__()
        self.heads, self.side = heads, side
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(heads, 1, 1)))
        self.cpb = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, heads, bias=False))
        nn.init.trunc_normal_(self.cpb[2].weight, std=0.1)
        yx = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij"), -1).view(-1, 2)
        rel = (yx[:, None] - yx[None]).float() * 8 / (side - 1)
        self.register_buffer("coords", rel.sign() * (rel.abs() + 1).log2() / math.log2(8))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * self.logit_scale.clamp(max=math.log(100.0)).exp()
        attn = attn + 16 * self.cpb(self.coords).permute(2, 0, 1).sigmoid()
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))


torch.manual_seed(29)
model = CosineWindow().eval()
inputs = torch.randn(6, 16, 60)
