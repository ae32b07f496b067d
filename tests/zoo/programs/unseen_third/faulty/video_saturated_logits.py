"""Frame-level video transformer; logits sharpened with a learned temperature, as in CLIP."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(2000.0)))  # fault: AS302|AS901
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = (attn * self.logit_scale.exp()).softmax(dim=-1)  # fault: AS302|AS901
        return self.proj((attn @ v).transpose(1, 2).reshape(B, T, D))


class VideoHead(nn.Module):
    def __init__(self, feat=20, dim=32, classes=4):
        super().__init__()
        self.embed = nn.Linear(feat, dim)
        self.time = nn.Parameter(torch.randn(1, 50, dim) * 0.1)
        self.attn = CosineAttention(dim)
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, frames):
        x = self.embed(frames) + self.time[:, : frames.shape[1]]
        x = x + self.attn(self.norm(x))
        return self.fc(x.mean(1))


# also: AS902 AS403 AS301 AS405 AS404
with torch.random.fork_rng():
    torch.manual_seed(39)
    model = VideoHead().eval()
inputs = torch.randn(3, 17, 20, generator=torch.Generator().manual_seed(3))
