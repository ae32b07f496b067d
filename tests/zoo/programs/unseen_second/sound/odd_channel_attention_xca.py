"""Cross-covariance attention: channels attend to channels, temperature per head."""

import torch
from torch import nn
import torch.nn.functional as F


class XCA(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 4, 1)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1) * self.temperature).softmax(dim=-1)
        return self.proj((attn @ v).permute(0, 3, 1, 2).reshape(B, N, C))


class XCiTLayer(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 4, 4)
        self.local = nn.Conv2d(dim, dim, 3, padding=1, groups=dim)
        self.norm, self.xca = nn.LayerNorm(dim), XCA(dim, 4)

    def forward(self, img):
        x = self.stem(img)
        h, w = x.shape[-2:]
        x = x + self.local(x)
        x = x.flatten(2).transpose(1, 2)
        x = x + self.xca(self.norm(x))
        return x.mean(1)


torch.manual_seed(20)
model = XCiTLayer().eval()
inputs = torch.randn(2, 3, 20, 24)
