"""MaxViT: block attention in windows, then grid attention over a sparse grid, both with folded batches."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def attend(qkv, h):
    q, k, v = qkv.unflatten(-1, (3, h, -1)).permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class MaxViTBlock(nn.Module):
    def __init__(self, d=32, h=4, p=3):
        super().__init__()
        self.h, self.p = h, p
        self.n = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.qkv = nn.ModuleList([nn.Linear(d, 3 * d), nn.Linear(d, 3 * d)])
        self.o = nn.ModuleList([nn.Linear(d, d), nn.Linear(d, d)])
        self.pos = nn.Parameter(torch.randn(p * p, d) * 0.2)

    def forward(self, x):
        b, H, W, d = x.shape
        p = self.p
        y = self.n[0](x).view(b, H // p, p, W // p, p, d).transpose(2, 3).reshape(-1, p * p, d) + self.pos
        y = self.o[0](attend(self.qkv[0](y), self.h))
        x = x + y.view(b, H // p, W // p, p, p, d).transpose(2, 3).reshape(b, H, W, d)
        y = self.n[1](x).view(b, p, H // p, p, W // p, d).permute(0, 2, 4, 1, 3, 5).reshape(-1, p * p, d) + self.pos
        y = self.o[1](attend(self.qkv[1](y), self.h))
        return x + y.view(b, H // p, W // p, p, p, d).permute(0, 3, 1, 4, 2, 5).reshape(b, H, W, d)


with torch.random.fork_rng():
    torch.manual_seed(62)
    model = MaxViTBlock().eval()
inputs = torch.randn(2, 6, 9, 32, generator=torch.Generator().manual_seed(62))
