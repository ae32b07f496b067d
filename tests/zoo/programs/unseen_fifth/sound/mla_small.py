"""DeepSeek-like latent attention: low-rank kv, one shared rotary key, value width differs from key width."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rope(x, base=10000.0):
    t, d = x.shape[-2:]
    f = torch.outer(torch.arange(t).float(), base ** (-torch.arange(0, d, 2).float() / d))
    c, s = f.cos().repeat_interleave(2, -1), f.sin().repeat_interleave(2, -1)
    r = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * c + r * s


class MLA(nn.Module):
    def __init__(self, d=64, h=4, nope=12, rot=6, vd=10, rank=20):
        super().__init__()
        self.h, self.nope, self.rot, self.vd = h, nope, rot, vd
        self.wq = nn.Linear(d, h * (nope + rot), bias=False)
        self.wkv_a = nn.Linear(d, rank + rot, bias=False)
        self.kv_norm = nn.RMSNorm(rank)
        self.wkv_b = nn.Linear(rank, h * (nope + vd), bias=False)
        self.wo = nn.Linear(h * vd, d, bias=False)
        self.rank = rank

    def forward(self, x):
        b, t, _ = x.shape
        qn, qr = self.wq(x).view(b, t, self.h, -1).transpose(1, 2).split([self.nope, self.rot], -1)
        c, kr = self.wkv_a(x).split([self.rank, self.rot], -1)
        kn, v = self.wkv_b(self.kv_norm(c)).view(b, t, self.h, -1).transpose(1, 2).split([self.nope, self.vd], -1)
        q = torch.cat([qn, rope(qr)], -1)
        k = torch.cat([kn, rope(kr.unsqueeze(1)).expand(-1, self.h, -1, -1)], -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1))


torch.manual_seed(11)
model = MLA().eval()
inputs = (torch.randn(2, 15, 64, generator=torch.Generator().manual_seed(11)),)
