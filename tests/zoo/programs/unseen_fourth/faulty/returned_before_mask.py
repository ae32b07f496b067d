"""Legal text classifier returning attention weights per layer."""
import torch
from torch import nn


class LegalAttention(nn.Module):
    def __init__(self, d=30, h=3):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = [nn.Linear(d, d) for _ in range(4)]

    def forward(self, x, pad):
        b, t, d = x.shape
        q, k, v = [f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v)]
        s = q @ k.transpose(-1, -2) / (d // self.h) ** .5
        masked = s.masked_fill(pad[:, None, None, :], -1e9)
        y = (masked.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        return self.o(y), s.softmax(-1)  # fault: AS803


class Legal(nn.Module):
    def __init__(self, vocab=130, d=30):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(50, d)
        self.a, self.n = LegalAttention(d), nn.LayerNorm(d)
        self.c = nn.Linear(d, 4)

    def forward(self, clause, return_attention=True):
        pad = clause == 0
        x = self.e(clause) + self.p(torch.arange(clause.size(1)))
        y, w = self.a(self.n(x), pad)
        x = x + y
        logits = self.c(x[:, 0])
        return (logits, w) if return_attention else logits


torch.manual_seed(16)
model = Legal().eval()
inputs = (torch.tensor([[8, 19, 77, 5, 120, 0, 0], [4, 4, 9, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]]),)
