"""Latent attention: low rank keys and values, shared rotary key, value heads narrower."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x):
    h = x.size(-1) // 2
    a = torch.outer(torch.arange(x.size(-2)).float(), 10000.0 ** (-torch.arange(h) / h))
    return torch.cat([x[..., :h] * a.cos() - x[..., h:] * a.sin(), x[..., h:] * a.cos() + x[..., :h] * a.sin()], -1)


class MLA(nn.Module):
    def __init__(self, d=48, h=4, nope=10, rot=4, vd=7, rank=12):
        super().__init__()
        self.h, self.nope, self.rot, self.vd, self.rank = h, nope, rot, vd, rank
        self.q = nn.Linear(d, h * (nope + rot), bias=False)
        self.down = nn.Linear(d, rank + rot, bias=False)
        self.norm = nn.RMSNorm(rank)
        self.up = nn.Linear(rank, h * (nope + vd), bias=False)
        self.o = nn.Linear(h * vd, d, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.h, -1).transpose(1, 2)
        qn, qr = q.split([self.nope, self.rot], -1)
        c, kr = self.down(x).split([self.rank, self.rot], -1)
        kn, v = self.up(self.norm(c)).view(b, t, self.h, -1).transpose(1, 2).split([self.nope, self.vd], -1)
        kr = rope(kr).unsqueeze(1).expand(-1, self.h, -1, -1)
        y = F.scaled_dot_product_attention(torch.cat([qn, rope(qr)], -1), torch.cat([kn, kr], -1), v, is_causal=True)
        return self.o(y.transpose(1, 2).flatten(2))


def model():
    torch.manual_seed(1)
    return MLA().eval()


inputs = torch.randn(2, 13, 48, generator=torch.Generator().manual_seed(1))
