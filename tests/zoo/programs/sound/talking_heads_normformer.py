"""Talking heads before and after the softmax, and NormFormer's learned scale for every head."""

import torch
from torch import nn


class TalkingHeads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj_l = nn.Linear(heads, heads)
        self.proj_w = nn.Linear(heads, heads)
        self.head_scale = nn.Parameter(torch.ones(heads))
        self.proj = nn.Linear(dim, dim)
        self.post = nn.LayerNorm(dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = attn.softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        out = torch.einsum("bhij,bhjd,h->bihd", attn, v, self.head_scale).reshape(B, N, C)
        return self.post(self.proj(out))


class CaiT(nn.Module):
    def __init__(self, patches=15, dim=32, heads=4, depth=2):
        super().__init__()
        self.patch = nn.Linear(48, dim)
        self.pos = nn.Parameter(torch.randn(patches, dim) * 0.02)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attn = nn.ModuleList(TalkingHeads(dim, heads) for _ in range(depth))
        self.fc = nn.Linear(dim, 10)

    def forward(self, patches):
        x = self.patch(patches) + self.pos
        for norm, attn in zip(self.norms, self.attn):
            x = x + attn(norm(x))
        return self.fc(x.mean(1))


with torch.random.fork_rng():
    torch.manual_seed(43)
    model = CaiT().eval()

inputs = torch.randn(3, 15, 48, generator=torch.Generator().manual_seed(44))
