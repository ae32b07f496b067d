"""Autocomplete server model that owns a static key/value cache; reset() between requests."""
import torch
from torch import nn
import torch.nn.functional as F


class StaticKV(nn.Module):
    def __init__(self, bs, n_max, h, hd):
        super().__init__()
        self.register_buffer("k", torch.zeros(bs, h, n_max, hd), persistent=False)
        self.register_buffer("v", torch.zeros(bs, h, n_max, hd), persistent=False)

    def update(self, pos, k, v):
        self.k[: k.size(0), :, pos] = k
        self.v[: v.size(0), :, pos] = v
        return self.k[: k.size(0)], self.v[: v.size(0)]


class Completer(nn.Module):
    def __init__(self, vocab=97, d=48, h=4, n_max=40, max_batch=4):
        super().__init__()
        self.h, self.n_max = h, n_max
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(n_max, d)
        self.qkv, self.o, self.head = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)
        self.cache = StaticKV(max_batch, n_max, h, d // h)
        self.register_buffer("causal", torch.ones(n_max, n_max, dtype=torch.bool).tril())
        self.seen = 0

    def reset(self):
        self.cache.k.zero_()
        self.cache.v.zero_()
        self.seen = 0

    @torch.no_grad()
    def forward(self, ids):
        b, t = ids.shape
        pos = torch.arange(self.seen, self.seen + t)
        self.seen += t
        x = self.emb(ids) + self.pos(pos)
        q, k, v = (y.view(b, t, self.h, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        k, v = self.cache.update(pos, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.causal[None, None, pos])
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


torch.manual_seed(9)
model = Completer().eval()
inputs = (torch.randint(0, 97, (2, 12), generator=torch.Generator().manual_seed(9)),)
expect = {"causal": True, "cache": "self"}
