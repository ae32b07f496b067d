"""Decoder without positional embedding; head outputs gated by a sigmoid of the input."""
import torch
import torch.nn.functional as F
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.gate = nn.Linear(d, d)
        self.o = nn.Linear(d, d, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        g = self.gate(x)
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.training).transpose(1, 2).flatten(2)  # fault: AS201
        return self.o(y * g.sigmoid())


class GatedNoPE(nn.Module):
    def __init__(self, vocab=62, d=45, h=5):
        super().__init__()
        self.e = nn.Embedding(vocab, d)
        self.norms = nn.ModuleList(nn.RMSNorm(d) for _ in range(2))
        self.attn = nn.ModuleList(GatedAttention(d, h) for _ in range(2))
        self.u = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.e(ids)
        for n, a in zip(self.norms, self.attn):
            x = x + a(n(x))
        return self.u(x)


with torch.random.fork_rng():
    torch.manual_seed(5)
    model = GatedNoPE().eval()
inputs = {"ids": torch.arange(39).view(3, 13) * 11 % 62}
expect = {"causal": True, "positions": False}
