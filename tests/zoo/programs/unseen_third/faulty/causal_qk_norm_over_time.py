"""Causal LM layer with l2-normalised queries and keys."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CosAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.logit_scale = nn.Parameter(torch.full((h, 1, 1), 8.0))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-2), F.normalize(k, dim=-2)  # fault: AS305|AS201
        s = (q @ k.mT) * self.logit_scale
        s = s + torch.full((n, n), float("-inf")).triu(1)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class CosLM(nn.Module):
    def __init__(self, vocab=60, d=32):
        super().__init__()
        self.e, self.p, self.a, self.n, self.u = nn.Embedding(vocab, d), nn.Embedding(40, d), CosAttention(d), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[: ids.shape[1]]
        return self.u(x + self.a(self.n(x)))


torch.manual_seed(0)
model = CosLM().eval()
expect = {"causal": True}
