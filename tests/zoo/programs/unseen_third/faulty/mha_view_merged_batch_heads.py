"""Seq2seq attention, heads folded by a single view."""
import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    def __init__(self, units=32, heads=4):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(units, units) for _ in range(4))

    def fold(self, t):
        b, n, u = t.shape
        return t.contiguous().view(b * self.heads, n, u // self.heads)  # fault: AS103

    def forward(self, x):
        b, n, u = x.shape
        q, k, v = self.fold(self.wq(x)), self.fold(self.wk(x)), self.fold(self.wv(x))
        a = torch.baddbmm(torch.zeros(1), q, k.transpose(1, 2), beta=0, alpha=(u // self.heads) ** -0.5)
        c = torch.bmm(a.softmax(-1), v)
        return self.wo(c.view(b, n, u))


torch.manual_seed(0)
model = FoldedAttention().eval()
inputs = torch.randn(3, 10, 32, generator=torch.Generator().manual_seed(0))
