"""Transformer-XL style language model over protein segments: memory of the last segment, relative positions, causal."""
import torch
import torch.nn as nn


class RelLayer(nn.Module):
    def __init__(self, d=32, h=4, span=64):
        super().__init__()
        self.h = h
        self.q, self.kv, self.o, self.r = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False), nn.Linear(d, d, bias=False), nn.Embedding(span, d)
        self.u, self.v, self.ln = nn.Parameter(torch.zeros(h, d // h)), nn.Parameter(torch.zeros(h, d // h)), nn.LayerNorm(d)
        nn.init.normal_(self.u, std=0.1)
        nn.init.normal_(self.v, std=0.1)

    def forward(self, x, mem):
        c = self.ln(torch.cat([mem, x], 1))
        b, n, d = c.shape
        t, m = x.size(1), mem.size(1)
        q = self.q(c[:, m:]).view(b, t, self.h, -1)
        k, val = self.kv(c).view(b, n, 2, self.h, -1).unbind(2)
        dist = torch.arange(m, m + t)[:, None] - torch.arange(n)[None]
        r = self.r(dist.clamp(min=0)).view(t, n, self.h, -1)
        s = torch.einsum("bihd,bjhd->bhij", q + self.u, k) + torch.einsum("bihd,ijhd->bhij", q + self.v, r)
        s = (s * (d // self.h) ** -0.5).masked_fill(dist < 0, float("-inf"))
        return x + self.o(torch.einsum("bhij,bjhd->bihd", s.softmax(-1), val).reshape(b, t, d))


class XL(nn.Module):
    def __init__(self, vocab=25, d=32):
        super().__init__()
        self.e, self.layers = nn.Embedding(vocab, d), nn.ModuleList([RelLayer(d) for _ in range(2)])

    def forward(self, tokens, mems):
        x, new = self.e(tokens), []
        for l, m in zip(self.layers, mems.unbind(0)):
            new.append(x.detach())
            x = l(x, m)
        return x @ self.e.weight.T, torch.stack(new)


with torch.random.fork_rng():
    torch.manual_seed(61)
    model = XL().eval()
_g = torch.Generator().manual_seed(61)
inputs = {"tokens": torch.randint(0, 25, (2, 8), generator=_g), "mems": torch.randn(2, 2, 10, 32, generator=_g)}
