"""Batched graphs of proteins (one mask a graph), four heads, four graphs a step."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidueGraphLayer(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.ln = nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, contact):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, d // self.h).transpose(1, 2) for t in self.qkv(self.ln(x)).split(d, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=contact[:, None])
        return x + self.o(y.transpose(1, 2).reshape(b, n, d))


class ResidueNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(6, 32)
        self.layers = nn.ModuleList([ResidueGraphLayer() for _ in range(2)])
        self.out = nn.Linear(32, 3)

    def forward(self, feat, contact):
        x = self.inp(feat)
        for l in self.layers:
            x = l(x, contact)
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(118)
    model = ResidueNet().eval()
_g = torch.Generator().manual_seed(118)
_c = torch.rand(4, 15, 15, generator=_g) < 0.35
inputs = (torch.randn(4, 15, 6, generator=_g), _c | _c.mT | torch.eye(15, dtype=torch.bool))
