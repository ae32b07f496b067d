"""Two decoder layers of which the second reuses the first one's keys and values, with K shared as V."""
import torch
from torch import nn


class YoLayer(nn.Module):
    def __init__(self, d, h, owns_kv):
        super().__init__()
        self.h = h
        self.ln = nn.LayerNorm(d)
        self.q, self.o = nn.Linear(d, d), nn.Linear(d, d)
        self.kv = nn.Linear(d, d // h) if owns_kv else None

    def forward(self, x, shared):
        b, n, d = x.shape
        y = self.ln(x)
        if self.kv is not None:
            shared = self.kv(y)
        q = self.q(y).view(b, n, self.h, -1)
        s = torch.einsum("bqhd,bkd->bhqk", q, shared) / (d // self.h) ** 0.5
        s = s.masked_fill(torch.arange(n)[None] >= torch.arange(n)[:, None], float("-inf"))  # fault: AS203|AS802
        o = torch.einsum("bhqk,bkd->bqhd", s.softmax(-1), shared)
        return x + self.o(o.reshape(b, n, d)), shared


class Yo(nn.Module):
    def __init__(self, vocab=51, d=32, h=4):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(20, d)
        self.layers = nn.ModuleList([YoLayer(d, h, True), YoLayer(d, h, False)])
        self.out = nn.Linear(d, vocab)

    def forward(self, ids):
        x, shared = self.e(ids) + self.p.weight[: ids.shape[1]], None
        for layer in self.layers:
            x, shared = layer(x, shared)
        return self.out(x)


torch.manual_seed(66)
model = Yo().eval()
inputs = (torch.randint(51, (2, 15)),)
# also: AS802|AS212
expect = {"causal": True}
