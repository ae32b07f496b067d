"""Multi-query attention as in 'One write-head is all you need', written as plain functions."""

import torch
from torch import nn


def multiquery_attention(X, mask, P_q, P_k, P_v, P_o):
    Q = torch.einsum("bnd,hdk->bhnk", X, P_q)
    K = torch.einsum("bmd,dk->bmk", X, P_k)
    V = torch.einsum("bmd,dv->bmv", X, P_v)
    logits = torch.einsum("bhnk,bmk->bhnm", Q, K)
    weights = torch.softmax(logits + mask, dim=-1)
    O = torch.einsum("bhnm,bmv->bhnv", weights, V)
    return torch.einsum("bhnv,hdv->bnd", O, P_o)


class MultiQuery(nn.Module):
    """The scale 1/sqrt(k) is folded into the initial value of P_q."""

    def __init__(self, d=42, h=6, k=8, v=10):
        super().__init__()
        self.P_q = nn.Parameter(torch.randn(h, d, k) * (d * k) ** -0.5)
        self.P_k = nn.Parameter(torch.randn(d, k) * d**-0.5)
        self.P_v = nn.Parameter(torch.randn(d, v) * d**-0.5)
        self.P_o = nn.Parameter(torch.randn(h, d, v) * (h * v) ** -0.5)

    def forward(self, x):
        n = x.shape[1]
        mask = torch.full((n, n), float("-inf"), device=x.device).triu(1)
        return multiquery_attention(x, mask, self.P_q, self.P_k, self.P_v, self.P_o)


with torch.random.fork_rng():
    torch.manual_seed(71)
    model = MultiQuery().eval()

inputs = torch.randn(3, 7, 42, generator=torch.Generator().manual_seed(72))
# note: AS301
