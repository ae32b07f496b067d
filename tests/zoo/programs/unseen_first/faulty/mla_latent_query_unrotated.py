"""Multi-head latent attention: compressed keys and values, one shared rotary key, value width of its own."""
import torch
from torch import nn


def rope(x, base=10000.0):
    n, d = x.shape[-2], x.shape[-1]
    ang = torch.arange(n)[:, None] * base ** (-torch.arange(0, d, 2) / d)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * ang.cos() - odd * ang.sin(), even * ang.sin() + odd * ang.cos()), -1).flatten(-2)


class LatentAttention(nn.Module):
    def __init__(self, d=50, h=5, nope=8, rot=4, vd=6, rank=12):
        super().__init__()
        self.h, self.nope, self.rot, self.vd = h, nope, rot, vd
        self.wq = nn.Linear(d, h * (nope + rot), bias=False)
        self.wkv_a = nn.Linear(d, rank + rot, bias=False)
        self.kv_norm = nn.RMSNorm(rank)
        self.wkv_b = nn.Linear(rank, h * (nope + vd), bias=False)
        self.wo = nn.Linear(h * vd, d, bias=False)
        self.softmax_scale = (nope + rot) ** -0.5

    def forward(self, x):
        b, n, _ = x.shape
        q = self.wq(x).view(b, n, self.h, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rot], dim=-1)
        latent, k_pe = self.wkv_a(x).split([self.wkv_a.out_features - self.rot, self.rot], dim=-1)
        kv = self.wkv_b(self.kv_norm(latent)).view(b, n, self.h, -1).transpose(1, 2)
        k_nope, v = kv.split([self.nope, self.vd], dim=-1)
        q = torch.cat([q_nope, q_pe], dim=-1)  # fault: AS503
        k = torch.cat([k_nope, rope(k_pe.unsqueeze(1)).expand(-1, self.h, -1, -1)], dim=-1)  # fault: AS503
        scores = torch.einsum("bhsd,bhtd->bhst", q, k) * self.softmax_scale
        scores = scores + torch.full((n, n), float("-inf")).triu_(1)
        out = torch.einsum("bhst,bhtd->bhsd", scores.softmax(-1), v)
        return self.wo(out.transpose(1, 2).flatten(2))


torch.manual_seed(4)
model = LatentAttention().eval()
inputs = torch.randn(3, 14, 50)
expect = {"causal": True}
