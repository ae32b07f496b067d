"""Differential attention: two softmax maps subtracted with a learned lambda."""
import torch
import torch.nn as nn


class DiffAttention(nn.Module):
    def __init__(self, d=32, h=2, lam=0.3):
        super().__init__()
        self.h, self.hd = h, d // h // 2
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.lam = nn.Parameter(torch.full((h, 1, 1), lam))
        self.norm = nn.RMSNorm(2 * self.hd)

    def forward(self, x):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.h, 2, self.hd).permute(3, 0, 2, 1, 4)
        k = self.k(x).view(b, t, self.h, 2, self.hd).permute(3, 0, 2, 1, 4)
        v = self.v(x).view(b, t, self.h, 2 * self.hd).transpose(1, 2)
        s = q @ k.mT * self.hd ** -0.5 + torch.full((t, t), float("-inf")).triu(1)
        a1, a2 = s.softmax(-1)
        y = self.norm((a1 - self.lam * a2) @ v) * 0.7
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class DiffLM(nn.Module):
    def __init__(self, vocab=57, d=32):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.a, self.n, self.f = DiffAttention(d), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[:ids.size(1)]
        return self.f(x + self.a(self.n(x)))


torch.manual_seed(6)
model = DiffLM().eval()
