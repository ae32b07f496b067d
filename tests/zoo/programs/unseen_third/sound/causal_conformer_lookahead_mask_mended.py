"""Streaming conformer with two frames of look-ahead allowed in the mask config; `right_context` counts frames."""
import torch
import torch.nn as nn


def chunk_mask(size, left, right):
    idx = torch.arange(size)
    d = idx[None] - idx[:, None]
    return (d <= right) & (d >= -left)


class RelAttention(nn.Module):
    def __init__(self, d, h, max_rel=16):
        super().__init__()
        self.h, self.max_rel = h, max_rel
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))
        self.rel_k = nn.Embedding(2 * max_rel + 1, d // h)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = (w(x).view(b, n, self.h, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        i = torch.arange(n)
        r = self.rel_k((i[None] - i[:, None]).clamp(-self.max_rel, self.max_rel) + self.max_rel)
        s = (q @ k.mT + torch.einsum("bhid,ijd->bhij", q, r)) / q.size(-1) ** 0.5
        s = torch.where(mask, s, torch.tensor(float("-inf")))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class StreamingConformer(nn.Module):
    def __init__(self, feats=14, d=32, h=4, left=8, right=0):
        super().__init__()
        self.left, self.right = left, right
        self.inp = nn.Linear(feats, d)
        self.att = nn.ModuleList([RelAttention(d, h) for _ in range(2)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, x):
        x = self.inp(x)
        m = chunk_mask(x.size(1), self.left, self.right)
        for a, n in zip(self.att, self.ln):
            x = x + a(n(x), m)
        return x


with torch.random.fork_rng():
    torch.manual_seed(116)
    model = StreamingConformer().eval()
inputs = torch.randn(2, 20, 14, generator=torch.Generator().manual_seed(116))
expect = {"causal": True}
