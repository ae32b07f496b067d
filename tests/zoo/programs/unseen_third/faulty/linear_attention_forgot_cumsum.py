"""Causal linear attention language model (elu feature map)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def feature_map(x):
    return F.elu(x) + 1


class CausalLinearAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        n, l, d = x.shape
        q, k, v = self.qkv(x).view(n, l, 3, self.h, d // self.h).unbind(2)
        q, k = feature_map(q), feature_map(k)
        kv = torch.einsum("nlhd,nlhm->nlhdm", k, v)
        kv, ks = kv.sum(1, keepdim=True).expand_as(kv), k.sum(1, keepdim=True).expand_as(k)  # fault: AS201
        z = 1 / (torch.einsum("nlhd,nlhd->nlh", q, ks) + 1e-6)
        y = torch.einsum("nlhd,nlhdm,nlh->nlhm", q, kv, z)
        return self.out(y.reshape(n, l, d))


class LinearLM(nn.Module):
    def __init__(self, vocab=60, d=32, h=4, depth=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.att = nn.ModuleList(CausalLinearAttention(d, h) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.size(1)]
        for a, n in zip(self.att, self.ln):
            x = x + a(n(x))
        return self.head(x)


torch.manual_seed(0)
model = LinearLM().eval()
expect = {"causal": True}
