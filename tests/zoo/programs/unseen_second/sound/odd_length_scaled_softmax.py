"""Scalable softmax: every row multiplied by a learned factor of the log of its visible keys."""

import torch
from torch import nn


class SSMaxLM(nn.Module):
    def __init__(self, vocab=46, d=36, heads=4):
        super().__init__()
        self.h = heads
        self.e, self.p, self.n = nn.Embedding(vocab, d), nn.Embedding(40, d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.s = nn.Parameter(torch.full((heads, 1, 1), 0.43))

    def forward(self, ids):
        b, t = ids.shape
        x = self.e(ids) + self.p.weight[:t]
        q, k, v = self.qkv(self.n(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        rows = torch.log(torch.arange(2, t + 2).float())[:, None]
        a = (q * (self.s * rows)) @ k.mT / q.size(-1) ** 0.5
        a = a.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return (x + self.o((a.softmax(-1) @ v).transpose(1, 2).flatten(2))) @ self.e.weight.T


torch.manual_seed(25)
model = SSMaxLM().eval()
inputs = torch.randint(0, 46, (3, 19))
expect = {"causal": True}
