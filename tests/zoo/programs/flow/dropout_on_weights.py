"""Encoder attention block with attention dropout, in training."""

import torch
from torch import nn


class EncoderAttention(nn.Module):
    def __init__(self, n_units, n_heads, rate):
        super().__init__()
        self.n_heads = n_heads
        self.l_q = nn.Linear(n_units, n_units)
        self.l_k = nn.Linear(n_units, n_units)
        self.l_v = nn.Linear(n_units, n_units)
        self.l_o = nn.Linear(n_units, n_units)
        self.att_drop = nn.Dropout(rate)

    def forward(self, x):
        b, t, u = x.shape
        q, k, v = (lin(x).view(b, t, self.n_heads, -1).transpose(1, 2) for lin in (self.l_q, self.l_k, self.l_v))
        scores = torch.matmul(q, k.transpose(-2, -1)) * (u // self.n_heads) ** -0.5
        weights = self.att_drop(torch.softmax(scores, dim=-1))
        return x + self.l_o(torch.matmul(weights, v).transpose(1, 2).reshape(b, t, u))


with torch.random.fork_rng():
    torch.manual_seed(85)
    model = EncoderAttention(50, 5, 0.3).train()

inputs = torch.randn(3, 11, 50, generator=torch.Generator().manual_seed(85))
# note: AS501
