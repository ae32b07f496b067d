"""Transformer-XL relative attention with the shift trick."""
import torch
import torch.nn as nn


class RelAttn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h, self.hd = h, d // h
        self.qkv, self.r, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.u, self.v_bias = nn.Parameter(torch.randn(h, self.hd) * 0.1), nn.Parameter(torch.randn(h, self.hd) * 0.1)
        self.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, d, 2.0) / d)))

    @staticmethod
    def _rel_shift(x):
        b, h, q, k = x.shape
        x = torch.cat([x.new_zeros(b, h, q, 1), x], dim=-1).view(b, h, k + 1, q)
        return x[:, :, 1:].reshape(b, h, q, k)

    def forward(self, w):
        b, n, d = w.shape
        q, k, v = (t.view(b, n, self.h, self.hd).transpose(1, 2) for t in self.qkv(w).chunk(3, -1))
        pos = torch.arange(n - 1, -1, -1.0)
        s = torch.outer(pos, self.inv_freq)
        r = self.r(torch.cat([s.sin(), s.cos()], -1)).view(n, self.h, self.hd).transpose(0, 1)
        AC = torch.matmul(q + self.u[:, None], k.mT)
        BD = self._rel_shift(torch.matmul(q + self.v_bias[:, None], r.mT))
        score = (AC + BD) / self.hd**0.5
        score = score.float().masked_fill(torch.ones(n, n).triu(1).bool(), -float("inf"))
        return self.o((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = RelAttn().eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
