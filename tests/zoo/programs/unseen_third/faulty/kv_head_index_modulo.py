"""MiniMind-like GQA in a loop over query heads."""
import torch
import torch.nn as nn


class LoopGQA(nn.Module):
    def __init__(self, dim=48, n_q=6, n_kv=2):
        super().__init__()
        self.n_q, self.n_kv, self.hd = n_q, n_kv, dim // n_q
        self.wq, self.wk, self.wv = nn.Linear(dim, dim), nn.Linear(dim, n_kv * self.hd), nn.Linear(dim, n_kv * self.hd)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        n, outs = x.shape[1], []
        mask = torch.triu(torch.ones(n, n), diagonal=1).bool()
        group = self.n_q // self.n_kv
        for i in range(self.n_q):
            j = i % self.n_kv  # fault: AS104
            qi = q[..., i * self.hd : (i + 1) * self.hd]
            kj, vj = k[..., j * self.hd : (j + 1) * self.hd], v[..., j * self.hd : (j + 1) * self.hd]
            s = (qi @ kj.transpose(1, 2)) / self.hd**0.5  # fault: AS104
            outs.append(s.masked_fill(mask, float("-inf")).softmax(dim=-1) @ vj)
        assert group * self.n_kv == self.n_q
        return self.wo(torch.cat(outs, dim=-1))


torch.manual_seed(0)
model = LoopGQA().eval()
inputs = torch.randn(2, 8, 48, generator=torch.Generator().manual_seed(0))
