"""Sparse transformer pattern: local band plus every fourth column."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def sparse_pattern(n, stride=4):
    q, k = torch.arange(n)[:, None], torch.arange(n)[None]
    local = q - k < stride
    strided = k % stride == stride - 1
    return (k <= q) & (local | strided)


class SparseGPT(nn.Module):
    def __init__(self, vocab=64, d=32, h=2):
        super().__init__()
        self.h = h
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.n, self.qkv, self.o, self.head = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def forward(self, ids):
        b, t = ids.shape
        x = self.e(ids) + self.p.weight[:t]
        q, k, v = (u.view(b, t, self.h, -1).transpose(1, 2) for u in self.qkv(self.n(x)).chunk(3, -1))
        s = (q @ k.mT) / q.shape[-1] ** 0.5
        s = s.masked_fill(~sparse_pattern(t), float("-inf"))
        return self.head(x + self.o((F.softmax(s, -1) @ v).transpose(1, 2).flatten(2)))


torch.manual_seed(0)
model = SparseGPT().eval()
inputs = torch.randint(0, 64, (2, 15), generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
