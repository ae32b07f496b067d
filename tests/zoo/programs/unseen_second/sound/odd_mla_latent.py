"""Multi-head latent attention: compressed keys and values, a rotary key shared by heads."""

import torch
from torch import nn


def rotate(x, pos):
    f = 100.0 ** (-torch.arange(0, x.size(-1), 2).float() / x.size(-1))
    a = pos[:, None].float() * f
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * a.cos() - odd * a.sin(), even * a.sin() + odd * a.cos()), -1).flatten(-2)


class MLA(nn.Module):
    def __init__(self, dim=48, heads=3, nope=10, rope=6, vdim=14, rank=20):
        super().__init__()
        self.h, self.nope, self.rope, self.vdim = heads, nope, rope, vdim
        self.wq = nn.Linear(dim, heads * (nope + rope), bias=False)
        self.kv_a = nn.Linear(dim, rank + rope, bias=False)
        self.kv_norm = nn.RMSNorm(rank)
        self.kv_b = nn.Linear(rank, heads * (nope + vdim), bias=False)
        self.wo = nn.Linear(heads * vdim, dim, bias=False)
        self.scale = (nope + rope) ** -0.5

    def forward(self, x):
        b, t, _ = x.shape
        pos = torch.arange(t)
        q = self.wq(x).view(b, t, self.h, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], -1)
        c, k_pe = self.kv_a(x).split([self.kv_b.in_features, self.rope], -1)
        kv = self.kv_b(self.kv_norm(c)).view(b, t, self.h, -1).transpose(1, 2)
        k_nope, v = kv.split([self.nope, self.vdim], -1)
        q = torch.cat([q_nope, rotate(q_pe, pos)], -1)
        k = torch.cat([k_nope, rotate(k_pe, pos).unsqueeze(1).expand(-1, self.h, -1, -1)], -1)
        s = (q @ k.transpose(-1, -2)) * self.scale
        s = s + torch.full((t, t), float("-inf")).triu(1)
        return self.wo((s.softmax(-1, dtype=torch.float32) @ v).transpose(1, 2).reshape(b, t, -1))


def model():
    torch.manual_seed(3)
    return MLA().eval()


inputs = {"x": torch.randn(2, 13, 48, generator=torch.Generator().manual_seed(3))}
expect = {"causal": True}
