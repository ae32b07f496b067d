"""Llama-Adapter style prompt tuning: adapter attention enters through a zero-initialised gate."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AdapterAttention(nn.Module):
    def __init__(self, d=48, h=4, n_prompt=5):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.adapter = nn.Parameter(torch.randn(1, n_prompt, d) * 0.02)
        self.gate = nn.Parameter(torch.zeros(1, h, 1, 1))

    def forward(self, x):
        b, t, d = x.shape
        split = lambda y: y.view(y.shape[0], -1, self.h, d // self.h).transpose(1, 2)
        q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        ak, av = split(self.wk(self.adapter)).expand(b, -1, -1, -1), split(self.wv(self.adapter)).expand(b, -1, -1, -1)
        w = self.gate.tanh() * F.softmax(q @ ak.mT / (d // self.h) ** 0.5, dim=-1)
        y = y + w @ av
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


torch.manual_seed(24)
model = AdapterAttention().eval()
inputs = (torch.randn(2, 11, 48, generator=torch.Generator().manual_seed(24)),)
expect = {"causal": True}
