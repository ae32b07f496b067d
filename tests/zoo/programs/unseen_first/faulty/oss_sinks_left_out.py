"""Attention with a learned sink logit per head, as in gpt-oss."""
import torch
import torch.nn as nn


class SinkAttention(nn.Module):
    def __init__(self, width: int, n_q: int, n_kv: int, hd: int):
        super().__init__()
        self.n_q, self.n_kv, self.hd = n_q, n_kv, hd
        self.sinks = nn.Parameter(torch.randn(n_q))
        self.qkv = nn.Linear(width, (n_q + 2 * n_kv) * hd)
        self.out = nn.Linear(n_q * hd, width)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).split([self.n_q * self.hd, self.n_kv * self.hd, self.n_kv * self.hd], dim=-1)
        q = q.view(b, n, self.n_kv, self.n_q // self.n_kv, self.hd)
        k, v = k.view(b, n, self.n_kv, self.hd), v.view(b, n, self.n_kv, self.hd)
        qk = torch.einsum("bqhmd,bkhd->bhmqk", q, k) / self.hd**0.5
        qk += torch.triu(qk.new_full((n, n), -float("inf")), diagonal=1)
        w = torch.softmax(qk, dim=-1)  # fault: AS903
        o = torch.einsum("bhmqk,bkhd->bqhmd", w, v)
        return self.out(o.reshape(b, n, -1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.p = nn.Embedding(70, 36), nn.Embedding(30, 36)
        self.n, self.a = nn.LayerNorm(36), SinkAttention(36, 6, 3, 10)
        self.u = nn.Linear(36, 70)

    def forward(self, t):
        x = self.e(t) + self.p.weight[: t.shape[1]]
        return self.u(x + self.a(self.n(x)))


torch.manual_seed(88)
model = Model().eval()
inputs = {"t": torch.randint(70, (4, 13))}
