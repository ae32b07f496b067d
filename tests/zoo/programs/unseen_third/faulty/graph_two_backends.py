"""Graph transformer with a fused and a plain path; the fused one runs outside of training."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BiasedAttention(nn.Module):
    def __init__(self, d=32, h=4, fused=True):
        super().__init__()
        self.h, self.fused = h, fused
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, spd_bias):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        if self.fused and not self.training:
            y = F.scaled_dot_product_attention(q, k, v)  # fault: AS801|AS208
        else:
            s = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5 + spd_bias
            y = torch.softmax(s, -1) @ v
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class GT(nn.Module):
    def __init__(self, feats=9, d=32, h=4, max_dist=8):
        super().__init__()
        self.inp, self.spd = nn.Linear(feats, d), nn.Embedding(max_dist, h)
        self.a1, self.a2 = BiasedAttention(d, h), BiasedAttention(d, h)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, dist):
        bias = self.spd(dist).permute(0, 3, 1, 2)
        x = self.inp(x)
        x = x + self.a1(self.n1(x), bias)
        return x + self.a2(self.n2(x), bias)


# also: AS903 AS501
with torch.random.fork_rng():
    torch.manual_seed(98)
    model = GT().eval()
_g = torch.Generator().manual_seed(98)
inputs = (torch.randn(2, 12, 9, generator=_g), torch.randint(0, 8, (2, 12, 12), generator=_g))
