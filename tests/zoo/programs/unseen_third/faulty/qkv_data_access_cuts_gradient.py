"""Spectral-normalised attention, projections re-scaled in every forward."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SigmaAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv = (nn.Parameter(torch.empty(d, d)) for _ in range(3))
        for w in (self.wq, self.wk, self.wv):
            nn.init.xavier_uniform_(w)
        self.out = nn.Linear(d, d)

    @staticmethod
    def reparam(w):
        w = w.data  # fault: AS902
        return w / torch.linalg.matrix_norm(w, ord=2)

    def forward(self, x):
        b, n, d = x.shape
        q, k = (F.linear(x, self.reparam(w)).view(b, n, self.h, -1).transpose(1, 2) for w in (self.wq, self.wk))
        v = F.linear(x, self.wv).view(b, n, self.h, -1).transpose(1, 2)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = SigmaAttention()
inputs = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
# also: AS903
