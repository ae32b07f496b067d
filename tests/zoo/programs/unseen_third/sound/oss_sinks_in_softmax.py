"""gpt-oss flavoured attention with per-head sinks."""
import torch
from torch import nn


class AttentionBlock(nn.Module):
    def __init__(self, hidden=64, heads=8, kv=2, hd=8):
        super().__init__()
        self.hidden, self.heads, self.kv, self.hd = hidden, heads, kv, hd
        self.norm = nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, hd * (heads + 2 * kv))
        self.out = nn.Linear(hd * heads, hidden)
        self.sinks = nn.Parameter(torch.randn(heads))
        self.sm_scale = hd**-0.5

    def forward(self, x):
        n = x.shape[1]
        t = self.norm(x)
        q, k, v = self.qkv(t).split([self.heads * self.hd, self.kv * self.hd, self.kv * self.hd], dim=-1)
        q = q.unflatten(-1, (self.kv, self.heads // self.kv, self.hd))
        k, v = (u.unflatten(-1, (self.kv, self.hd)) for u in (k, v))
        QK = torch.einsum("bqhmd,bkhd->bhmqk", q, k) * self.sm_scale
        QK = QK + torch.triu(QK.new_full((n, n), -float("inf")), diagonal=1)
        S = self.sinks.reshape(1, self.kv, -1, 1, 1).expand(x.shape[0], -1, -1, n, 1)
        QK = torch.cat([QK, S], dim=-1)
        W = torch.softmax(QK, dim=-1)[..., :-1]
        attn = torch.einsum("bhmqk,bkhd->bqhmd", W, v).flatten(2)
        return x + self.out(attn)


torch.manual_seed(0)
model = AttentionBlock().eval()
inputs = torch.randn(2, 11, 64, generator=torch.Generator().manual_seed(0))
