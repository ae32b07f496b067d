"""Decoder with a learned sink logit per head and a sliding window on every other layer (gpt-oss)."""

import torch
from torch import nn


def apply_rope(x, base=150000.0):
    t, d = x.shape[-2], x.shape[-1]
    freq = base ** (-torch.arange(0, d, 2, device=x.device) / d)
    ang = torch.arange(t, device=x.device)[:, None] * freq
    c, s = ang.cos(), ang.sin()
    x1, x2 = torch.chunk(x, 2, dim=-1)
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1)


class SinkAttention(nn.Module):
    def __init__(self, width, n_q, n_kv, hd, window):
        super().__init__()
        self.n_q, self.n_kv, self.hd, self.window = n_q, n_kv, hd, window
        self.qkv = nn.Linear(width, (n_q + 2 * n_kv) * hd)
        self.sinks = nn.Parameter(torch.randn(n_q))
        self.out = nn.Linear(n_q * hd, width)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).split([self.n_q * self.hd, self.n_kv * self.hd, self.n_kv * self.hd], dim=-1)
        q = apply_rope(q.view(b, t, self.n_q, self.hd).transpose(1, 2))
        k = apply_rope(k.view(b, t, self.n_kv, self.hd).transpose(1, 2))
        v = v.view(b, t, self.n_kv, self.hd).transpose(1, 2)
        g = self.n_q // self.n_kv
        q = q.view(b, self.n_kv, g, t, self.hd)
        qk = torch.einsum("bhgqd,bhkd->bhgqk", q, k) * self.hd**-0.5
        mask = torch.triu(qk.new_full((t, t), -float("inf")), diagonal=1)
        if self.window > 0:
            mask = mask + torch.tril(mask.new_full((t, t), -float("inf")), diagonal=-self.window)
        qk = qk + mask
        s = self.sinks.view(1, self.n_kv, g, 1, 1).expand(b, -1, -1, t, -1)
        w = torch.softmax(torch.cat([qk, s], dim=-1), dim=-1)[..., :-1]
        o = torch.einsum("bhgqk,bhkd->bhgqd", w, v)
        return self.out(o.permute(0, 3, 1, 2, 4).reshape(b, t, -1))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(60, 40)
        self.attn = nn.ModuleList([SinkAttention(40, 6, 2, 8, window=5 if i % 2 == 0 else 0) for i in range(2)])
        self.norms = nn.ModuleList([nn.RMSNorm(40, eps=1e-5) for _ in range(3)])
        self.unembedding = nn.Linear(40, 60, bias=False)

    def forward(self, tokens):
        x = self.emb(tokens)
        for attn, norm in zip(self.attn, self.norms):
            x = x + attn(norm(x))
        return self.unembedding(self.norms[-1](x))


def build_model():
    with torch.random.fork_rng():
        torch.manual_seed(77)
        return Tower().eval()


model = build_model()
inputs = torch.randint(0, 60, (2, 12), generator=torch.Generator().manual_seed(1))
expect = {"causal": True, "window": [5, None]}
