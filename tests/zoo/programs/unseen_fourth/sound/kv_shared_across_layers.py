"""Decoder whose second half reuses keys and values of the first."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QOnly(nn.Module):
    def __init__(self, d, h, own):
        super().__init__()
        self.h, self.n = h, nn.LayerNorm(d)
        self.q, self.o = nn.Linear(d, d), nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * d) if own else None

    def forward(self, x, shared):
        y = self.n(x)
        s = lambda z: z.unflatten(-1, (self.h, -1)).transpose(1, 2)
        if self.kv is not None:
            shared = [s(z) for z in self.kv(y).chunk(2, -1)]
        a = F.scaled_dot_product_attention(s(self.q(y)), *shared, is_causal=True)
        return x + self.o(a.transpose(1, 2).flatten(2)), shared


class YocoLM(nn.Module):
    def __init__(self, vocab=59, d=32):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.layers = nn.ModuleList([QOnly(d, 4, i < 2) for i in range(4)])
        self.f = nn.Linear(d, vocab)

    def forward(self, tokens):
        x, kv = self.e(tokens) + self.p.weight[:tokens.size(1)], None
        for l in self.layers:
            x, kv = l(x, kv)
        return self.f(x)


torch.manual_seed(2)
model = YocoLM().eval()
expect = {"causal": True}
