"""Reformer-like shared query/key attention: keys are the normalised queries, a token sees itself only if it must; causal."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedQK(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.toqk, self.tov, self.out = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        qk, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.toqk, self.tov))
        dots = qk @ F.normalize(qk, dim=-1).mT * (d // self.h) ** -0.5
        eye = torch.eye(n, dtype=torch.bool)
        dots = dots.masked_fill(eye, -5e4)
        dots = dots.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), torch.finfo(dots.dtype).min)
        return self.out((dots.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class LM(nn.Module):
    def __init__(self, vocab=50, d=32):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.a, self.n = nn.ModuleList([SharedQK(d) for _ in range(2)]), nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[: ids.size(1)]
        for a, n in zip(self.a, self.n):
            x = x + a(n(x))
        return x @ self.e.weight.T


with torch.random.fork_rng():
    torch.manual_seed(47)
    model = LM().eval()
inputs = (torch.randint(0, 50, (2, 15), generator=torch.Generator().manual_seed(47)),)
expect = {"causal": True}
