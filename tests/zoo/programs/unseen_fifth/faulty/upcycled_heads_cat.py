"""Upcycles a 4-head attention to 8 heads by widening the query and key projections of a base layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BaseAttn(nn.Module):
    def __init__(self, d, h, hd):
        super().__init__()
        self.h, self.hd = h, hd
        self.q, self.k, self.v = (nn.Linear(d, h * hd, bias=False) for _ in range(3))
        self.o = nn.Linear(h * hd, d, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, self.h, self.hd).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS402
        return self.o(y.transpose(1, 2).reshape(b, t, self.h * self.hd))


@torch.no_grad()
def upcycle(base: BaseAttn, factor=2):
    wide = BaseAttn(base.q.in_features, base.h * factor, base.hd)
    for name in ("q", "k", "v"):
        getattr(wide, name).weight.copy_(getattr(base, name).weight.repeat(factor, 1))  # fault: AS402
    wide.o.weight.copy_(base.o.weight.repeat(1, factor) / factor)  # fault: AS402
    return wide


def model():
    with torch.random.fork_rng():
        torch.manual_seed(402)
        return upcycle(BaseAttn(44, 4, 11)).eval()


inputs = torch.randn(2, 13, 44, generator=torch.Generator().manual_seed(402))
