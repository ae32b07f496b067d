"""Cross-covariance attention (XCiT): channels attend to channels."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class XCA(nn.Module):
    def __init__(self, dim, num_heads=4, qkv_bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.temperature = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 4, 1)
        q, k, v = qkv.unbind(0)          # B, h, C', N
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * self.temperature
        attn = attn.softmax(dim=-1)
        x = (attn @ v).permute(0, 3, 1, 2).reshape(B, N, C)
        return self.proj(x)


class XCABlock(nn.Module):
    def __init__(self, dim, num_heads, eta=0.5):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = XCA(dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.gamma1 = nn.Parameter(eta * torch.ones(dim))
        self.gamma2 = nn.Parameter(eta * torch.ones(dim))

    def forward(self, x):
        x = x + self.gamma1 * self.attn(self.norm1(x))
        return x + self.gamma2 * self.mlp(self.norm2(x))


class Tower(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 30, dim) * 0.02)
        self.blocks = nn.ModuleList([XCABlock(dim, 5), XCABlock(dim, 5)])
        self.fc = nn.Linear(dim, 6)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = x + self.pos[:, :x.shape[1]]
        for b in self.blocks:
            x = b(x)
        return self.fc(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(6)
        return Tower().eval()


inputs = torch.randn(3, 1, 24, 20, generator=torch.Generator().manual_seed(7))
