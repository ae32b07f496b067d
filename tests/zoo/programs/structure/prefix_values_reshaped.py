"""Prompt tuning: learned prefix tokens before the sequence, heads split afterwards."""

import torch
from torch import nn


class PrefixAttention(nn.Module):
    def __init__(self, d=40, heads=5, n_prefix=3):
        super().__init__()
        self.heads = heads
        self.prefix = nn.Parameter(torch.randn(1, n_prefix, d))
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        pre = self.prefix.expand(b, -1, -1)
        k, v = torch.cat([self.wk(pre), k], 1), torch.cat([self.wv(pre), v], 1)
        m = k.shape[1]
        q = q.view(b, t, self.heads, -1).transpose(1, 2)
        k = k.view(b, self.heads, m, -1)  # fault: AS103
        v = v.view(b, m, self.heads, -1).transpose(1, 2)
        s = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


torch.manual_seed(0)
model = PrefixAttention().eval()
inputs = torch.randn(2, 9, 40, generator=torch.Generator().manual_seed(0))
