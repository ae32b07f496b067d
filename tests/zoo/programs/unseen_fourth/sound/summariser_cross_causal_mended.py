"""Summariser decoder layer with self and cross attention sharing one helper."""
import torch
from torch import nn


def attend(q, k, v, heads, causal):
    b, n, d = q.shape
    m = k.shape[1]
    split = lambda z: z.reshape(b, -1, heads, d // heads).transpose(1, 2)
    s = split(q) @ split(k).transpose(2, 3) / (d // heads) ** 0.5
    if causal:
        s = s.masked_fill(torch.ones(n, m, device=q.device).tril() == 0, float("-inf"))
    return (s.softmax(-1) @ split(v)).transpose(1, 2).reshape(b, n, d)


class DecLayer(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.s = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])
        self.c = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])

    def forward(self, x, mem):
        x = x + self.s[3](attend(self.s[0](x), self.s[1](x), self.s[2](x), self.heads, causal=True))
        x = x + self.c[3](attend(self.c[0](x), self.c[1](mem), self.c[2](mem), self.heads, causal=False))
        return x


class Summariser(nn.Module):
    def __init__(self, vocab=66, d=32):
        super().__init__()
        self.e = nn.Embedding(vocab, d)
        self.p = nn.Parameter(torch.randn(60, d) * .1)
        enc = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True)
        self.enc = nn.TransformerEncoder(enc, 1, enable_nested_tensor=False)
        self.dec = nn.ModuleList([DecLayer(d) for _ in range(2)])
        self.o = nn.Linear(d, vocab)

    def forward(self, article, summary):
        mem = self.enc(self.e(article) + self.p[:article.size(1)])
        y = self.e(summary) + self.p[:summary.size(1)]
        for l in self.dec:
            y = l(y, mem)
        return self.o(y)


torch.manual_seed(14)
model = Summariser().eval()
_g = torch.Generator().manual_seed(14)
inputs = {"article": torch.randint(0, 66, (2, 15), generator=_g), "summary": torch.randint(0, 66, (2, 6), generator=_g)}
expect = {"causal": True}
