"""Sparse decoder: half of the heads local, half strided, all causal."""

import torch
import torch.nn.functional as F
from torch import nn


class SparseDecoder(nn.Module):
    def __init__(self, vocab=52, d=40, heads=4, span=3, stride=4):
        super().__init__()
        self.heads, self.span, self.stride = heads, span, stride
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.ln, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, ids):
        b, t = ids.shape
        x = self.e(ids) + self.p.weight[:t]
        i, j = torch.arange(t)[:, None], torch.arange(t)[None]
        local = (i - j < self.span) & (j <= i)
        strided = ((i - j) % self.stride == 0) & (j <= i)
        pattern = torch.stack([local, local, strided, strided])
        q, k, v = self.qkv(self.ln(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~pattern, -1e30)
        return x + self.out((F.softmax(s, -1) @ v).transpose(1, 2).flatten(2))


torch.manual_seed(11)
model = SparseDecoder().eval()
inputs = torch.randint(0, 52, (3, 16))
expect = {"causal": True}
