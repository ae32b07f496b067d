"""Pre and post norm around each sublayer, blocks under activation checkpointing."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Sandwich(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.pre, self.post = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qn, self.kn = nn.RMSNorm(d // h), nn.RMSNorm(d // h)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def inner(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.pre(x)).view(b, t, 3, self.h, -1).unbind(2)
        q, k = self.qn(q), self.kn(k)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.post(self.o(y.transpose(1, 2).reshape(b, t, d)))

    def forward(self, x):
        return x + checkpoint(self.inner, x, use_reentrant=False)


class Net(nn.Module):
    def __init__(self, vocab=53, d=40):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(50, d)
        self.blocks = nn.ModuleList([Sandwich(d, 4) for _ in range(2)])

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos.weight[:tokens.size(1)]
        for b in self.blocks:
            x = b(x)
        return F.linear(x, self.emb.weight)


torch.manual_seed(12)
model = Net().eval()
expect = {"causal": True}
