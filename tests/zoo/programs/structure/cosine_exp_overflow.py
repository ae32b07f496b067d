"""Cosine attention over patches, sharp temperature."""

import torch
import torch.nn.functional as F
from torch import nn


class CosineAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.full((num_heads, 1, 1), 200.0).log())

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.logit_scale.exp()
        attn = attn.exp()  # fault: AS802
        attn = attn / attn.sum(dim=-1, keepdim=True)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class PatchClassifier(nn.Module):
    def __init__(self, dim=33, num_heads=3, classes=4):
        super().__init__()
        self.embed = nn.Linear(12, dim)
        self.norm = nn.LayerNorm(dim)
        self.attn = CosineAttention(dim, num_heads)
        self.fc = nn.Linear(dim, classes)

    def forward(self, patches):
        x = self.embed(patches)
        x = x + self.attn(self.norm(x))
        return self.fc(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(230)
        return PatchClassifier().eval()


def inputs():
    return {"patches": torch.randn(2, 16, 12, generator=torch.Generator().manual_seed(231))}

# also: AS302 AS501
