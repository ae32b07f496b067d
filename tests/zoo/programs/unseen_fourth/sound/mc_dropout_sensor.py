"""Uncertainty by dropout at test time, attention dropout stays on."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MCAttention(nn.Module):
    def __init__(self, d=24, h=2, p=0.1):
        super().__init__()
        self.h, self.p = h, p
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.h, -1)).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        return self.o(F.scaled_dot_product_attention(q, k, v, dropout_p=self.p).transpose(1, 2).flatten(2))


class MCNet(nn.Module):
    def __init__(self, c=5, d=24):
        super().__init__()
        self.i, self.pos = nn.Linear(c, d), nn.Parameter(torch.randn(40, d) * .1)
        self.a, self.o = MCAttention(d), nn.Linear(d, 2)

    def forward(self, x):
        h = self.i(x) + self.pos[:x.size(1)]
        mean, logvar = self.o((h + self.a(h)).mean(1)).unbind(-1)
        return mean, logvar


torch.manual_seed(15)
model = MCNet().eval()
inputs = torch.randn(3, 16, 5, generator=torch.Generator().manual_seed(15))
expect = {"dropout": "on in eval"}
