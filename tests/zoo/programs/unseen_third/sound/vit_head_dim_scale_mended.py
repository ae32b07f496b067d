"""ViT-Tiny written for a course; einsum everywhere."""
import torch
from torch import nn, einsum


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.scale = dim_head**-0.5
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(dropout))

    def forward(self, x):
        b, n, _, h = *x.shape, self.heads
        q, k, v = (t.view(b, n, h, -1).permute(0, 2, 1, 3) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        attn = dots.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v).permute(0, 2, 1, 3).reshape(b, n, -1)
        return self.to_out(out)


class TinyViT(nn.Module):
    def __init__(self, dim=96, classes=10):
        super().__init__()
        self.patch = nn.Linear(48, dim)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, dim)), nn.Parameter(torch.randn(1, 17, dim))
        self.attn, self.norm, self.head = Attention(dim, heads=6, dim_head=16), nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x)
        x = torch.cat((self.cls.repeat(x.size(0), 1, 1), x), dim=1) + self.pos[:, : x.size(1) + 1]
        return self.head((x + self.attn(self.norm(x)))[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(126)
    model = TinyViT().eval()
inputs = torch.randn(2, 16, 48, generator=torch.Generator().manual_seed(126))
expect = {"scale": 0.25}
