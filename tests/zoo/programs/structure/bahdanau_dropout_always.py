"""Additive attention pooling of a tagger; dropout is functional."""

import torch
from torch import nn
import torch.nn.functional as F


class AdditiveAttention(nn.Module):
    def __init__(self, d=24, a=16):
        super().__init__()
        self.wq, self.wk, self.v = nn.Linear(d, a), nn.Linear(d, a), nn.Linear(a, 1)

    def forward(self, queries, keys):
        e = self.v(torch.tanh(self.wq(queries)[:, :, None] + self.wk(keys)[:, None])).squeeze(-1)
        w = F.dropout(e.softmax(dim=-1), 0.25)  # fault: AS701
        return torch.bmm(w, keys)


class Tagger(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.att, self.out = AdditiveAttention(d), nn.Linear(2 * d, 5)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(torch.cat([h, self.att(h, h)], -1))


torch.manual_seed(0)
model = Tagger().eval()
inputs = torch.randn(2, 9, 24, generator=torch.Generator().manual_seed(0))
