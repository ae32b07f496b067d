"""Audio tagging transformer on mel patches with packed qkv."""
import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, dim=36, num_heads=4, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, 3, self.num_heads, N, C // self.num_heads).transpose(0, 1)  # fault: AS103
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        x = (attn.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class Tagger(nn.Module):
    def __init__(self, dim=36):
        super().__init__()
        self.conv = nn.Conv2d(1, dim, (8, 4), (8, 4))
        self.pos = nn.Parameter(torch.randn(1, 12, dim) * .02)
        self.a1, self.a2 = Attention(dim), Attention(dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 14)

    def forward(self, mel):
        x = self.conv(mel).flatten(2).transpose(1, 2) + self.pos
        x = x + self.a1(self.n1(x))
        x = x + self.a2(self.n2(x))
        return self.out(x.mean(1)).sigmoid()


torch.manual_seed(23)
model = Tagger().eval()
inputs = {"mel": torch.randn(3, 1, 16, 24, generator=torch.Generator().manual_seed(1))}
