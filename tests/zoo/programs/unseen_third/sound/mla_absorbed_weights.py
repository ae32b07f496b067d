"""MLA decode form: the up projection of the keys is absorbed into the query."""
import torch
import torch.nn as nn


class AbsorbedMLA(nn.Module):
    def __init__(self, dim=48, heads=4, nope=8, rope=4, rank=14, vdim=10):
        super().__init__()
        self.h, self.nope, self.rope, self.vdim, self.rank = heads, nope, rope, vdim, rank
        self.wq = nn.Linear(dim, heads * (nope + rope), bias=False)
        self.wkv_a = nn.Linear(dim, rank + rope, bias=False)
        self.kv_norm = nn.RMSNorm(rank)
        self.wkv_b = nn.Parameter(torch.randn(heads, nope + vdim, rank) * rank**-0.5)
        self.wo = nn.Linear(heads * vdim, dim, bias=False)

    def rot(self, x, pos):
        f = 10000.0 ** (-torch.arange(0, self.rope, 2) / self.rope)
        a = pos[:, None] * f
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack((x1 * a.cos() - x2 * a.sin(), x1 * a.sin() + x2 * a.cos()), -1).flatten(-2)

    def forward(self, x):
        b, s, _ = x.shape
        pos = torch.arange(s).float()
        q = self.wq(x).view(b, s, self.h, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], -1)
        c, k_pe = self.wkv_a(x).split([self.rank, self.rope], -1)
        c = self.kv_norm(c)
        q_pe, k_pe = self.rot(q_pe, pos), self.rot(k_pe, pos)
        q_abs = torch.einsum("bhsd,hdc->bhsc", q_nope, self.wkv_b[:, : self.nope])
        scores = (torch.einsum("bhsc,btc->bhst", q_abs, c) + torch.einsum("bhsr,btr->bhst", q_pe, k_pe)) * (self.nope + self.rope) ** -0.5
        scores = scores + torch.full((s, s), float("-inf")).triu(1)
        ctx = torch.einsum("bhst,btc->bhsc", scores.softmax(-1), c)
        out = torch.einsum("bhsc,hdc->bshd", ctx, self.wkv_b[:, self.nope :])
        return self.wo(out.flatten(2))


torch.manual_seed(0)
model = AbsorbedMLA().eval()
inputs = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(0))
