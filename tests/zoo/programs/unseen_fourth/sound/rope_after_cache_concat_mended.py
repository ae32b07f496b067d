"""Incremental rotary attention: new keys join the cached ones, then rotate."""
import torch
from torch import nn
import torch.nn.functional as F


def rope(x, positions):
    half = x.size(-1) // 2
    inv = 1.0 / 10000 ** (torch.arange(half) / half)
    ang = positions[:, None] * inv
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()], -1)


class StepAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x, kv=None):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.h, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        past = 0 if kv is None else kv[0].size(2)
        k = rope(k, torch.arange(past, past + t).float())
        if kv is not None:
            k, v = torch.cat([kv[0], k], 2), torch.cat([kv[1], v], 2)
        q = rope(q, torch.arange(past, past + t).float())
        s = k.size(2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(t, s, dtype=torch.bool).tril(s - t))
        return self.o(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class StepLM(nn.Module):
    def __init__(self, vocab=58, d=32, h=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.att = StepAttention(d, h)
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, kv=None):
        x = self.emb(ids)
        y, kv = self.att(self.norm(x), kv)
        return self.head(x + y), kv


def model():
    torch.manual_seed(13)
    return StepLM().eval()


inputs = torch.randint(0, 58, (2, 9), generator=torch.Generator().manual_seed(13))
expect = {"causal": True, "cache": "kv"}
