"""Differential attention: the difference of two softmax maps, normed per head."""

import torch
from torch import nn


class DiffAttention(nn.Module):
    def __init__(self, d=48, heads=3, lambda_init=0.5):
        super().__init__()
        self.h, self.dh, self.lambda_init = heads, d // heads // 2, lambda_init
        self.q, self.k, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.o = nn.Linear(d, d, bias=False)
        self.l = nn.ParameterList(nn.Parameter(torch.randn(self.dh) * 0.1) for _ in range(4))
        self.subln = nn.RMSNorm(2 * self.dh)
        self.pos = nn.Embedding(40, d)

    def forward(self, x):
        b, t, d = x.shape
        h = x + self.pos.weight[:t]
        q = self.q(h).view(b, t, 2 * self.h, self.dh).transpose(1, 2) * self.dh**-0.5
        k = self.k(h).view(b, t, 2 * self.h, self.dh).transpose(1, 2)
        v = self.v(h).view(b, t, self.h, 2 * self.dh).transpose(1, 2)
        a = (q @ k.transpose(-1, -2)).masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf")).softmax(-2)  # fault: AS101
        a = a.view(b, self.h, 2, t, t)
        lam = torch.exp((self.l[0] * self.l[1]).sum()) - torch.exp((self.l[2] * self.l[3]).sum()) + self.lambda_init
        a = a[:, :, 0] - lam * a[:, :, 1]
        return x + self.o((self.subln(a @ v) * (1 - self.lambda_init)).transpose(1, 2).reshape(b, t, d))


torch.manual_seed(22)
model = DiffAttention().eval()
inputs = torch.randn(2, 14, 48)
expect = {"causal": True}
# also: AS201
