"""Causal linear attention (elu + 1) for irregular sensor streams."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def elu_feature_map(x):
    return F.elu(x) + 1


class CausalLinearAttention(nn.Module):
    def __init__(self, d, heads, eps=1e-6):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.q, self.k, self.v, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        N, L, d = x.shape
        Q = elu_feature_map(self.q(x).view(N, L, self.heads, -1))
        K = elu_feature_map(self.k(x).view(N, L, self.heads, -1))
        V = self.v(x).view(N, L, self.heads, -1)
        KV = torch.einsum("nlhd,nlhm->nlhdm", K, V).cumsum(1)
        Z = 1 / (torch.einsum("nlhd,nlhd->nlh", Q, K.cumsum(1)) + self.eps)
        return self.o(torch.einsum("nlhd,nlhdm,nlh->nlhm", Q, KV, Z).reshape(N, L, d))


class Stream(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.inp = nn.Linear(4, d)
        self.w = nn.Parameter(torch.randn(d // 2) * .5)
        self.att = CausalLinearAttention(d, 3)
        self.ln = nn.LayerNorm(d)
        self.out = nn.Linear(d, 2)

    def forward(self, values, times):
        ang = times[..., None] * self.w
        x = self.inp(values) + torch.cat([ang.sin(), ang.cos()], -1)
        return self.out(x + self.att(self.ln(x)))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(16)
        return Stream().eval()


g = torch.Generator().manual_seed(17)
inputs = {"values": torch.randn(2, 14, 4, generator=g), "times": torch.rand(2, 14, generator=g).cumsum(1)}
expect = {"causal": True, "positions": "times"}
