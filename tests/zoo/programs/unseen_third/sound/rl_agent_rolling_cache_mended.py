"""Transformer policy that acts step by step: keys and values of past steps are handed back as `past`."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StepAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, past):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        n = k.size(2)
        mask = torch.ones(t, n, dtype=torch.bool).tril(n - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class Policy(nn.Module):
    def __init__(self, obs=7, d=32, h=4, layers=2, actions=5, horizon=40):
        super().__init__()
        self.inp, self.pos = nn.Linear(obs, d), nn.Embedding(horizon, d)
        self.att = nn.ModuleList(StepAttention(d, h) for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.pi = nn.Linear(d, actions)

    def forward(self, obs, past=None):
        start = 0 if past is None else past[0][0].size(2)
        x = self.inp(obs) + self.pos(torch.arange(start, start + obs.size(1)))
        new = []
        for i, (a, n) in enumerate(zip(self.att, self.ln)):
            y, kv = a(n(x), None if past is None else past[i])
            x = x + y
            new.append(kv)
        return self.pi(x), tuple(new)


with torch.random.fork_rng():
    torch.manual_seed(91)
    model = Policy().eval()
inputs = {"obs": torch.randn(2, 9, 7, generator=torch.Generator().manual_seed(91))}
expect = {"causal": True, "cache": "past"}
