"""Cross-covariance attention (XCiT): channels attend to channels, queries and keys L2-normalised over the tokens."""
import torch
import torch.nn as nn


class XCA(nn.Module):
    def __init__(self, dim=48, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 4, 1)
        q, k, v = qkv.unbind(0)  # B, h, d, N
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).permute(0, 3, 1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.norm, self.attn, self.gamma = nn.LayerNorm(dim), XCA(dim), nn.Parameter(0.1 * torch.ones(dim))

    def forward(self, x):
        return x + self.gamma * self.attn(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(1)
    model = nn.Sequential(Block(), Block()).eval()
inputs = torch.randn(2, 25, 48, generator=torch.Generator().manual_seed(1))
