"""GPT-OSS style layer: a learned sink logit per head joins the softmax and is dropped afterwards."""
import torch
import torch.nn as nn


class SinkAttention(nn.Module):
    def __init__(self, hidden=64, heads=8, kv=2, window=None):
        super().__init__()
        self.heads, self.kv, self.hd, self.window = heads, kv, hidden // heads, window
        self.qkv = nn.Linear(hidden, (heads + 2 * kv) * self.hd)
        self.out = nn.Linear(hidden, hidden)
        self.sinks = nn.Parameter(torch.randn(heads) * 0.5)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = self.qkv(x).split([self.heads * self.hd, self.kv * self.hd, self.kv * self.hd], dim=-1)
        q = q.view(n, t, self.kv, self.heads // self.kv, self.hd)
        k = k.view(n, t, self.kv, self.hd)
        v = v.view(n, t, self.kv, self.hd)
        qk = torch.einsum("nqgmd,nkgd->ngmqk", q, k) * self.hd ** -0.5
        blocked = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        if self.window:
            blocked |= torch.ones_like(blocked).tril(-self.window)
        qk = qk.masked_fill(blocked, float("-inf"))
        s = self.sinks.view(1, self.kv, -1, 1, 1).expand(n, -1, -1, t, 1)
        w = torch.cat([qk, s], dim=-1).softmax(dim=-1)[..., :-1]
        return self.out(torch.einsum("ngmqk,nkgd->nqgmd", w, v).reshape(n, t, -1))


class SinkLM(nn.Module):
    def __init__(self, vocab=100, hidden=64):
        super().__init__()
        self.embedding, self.pos = nn.Embedding(vocab, hidden), nn.Embedding(64, hidden)
        self.block = nn.ModuleList([SinkAttention(hidden, window=5), SinkAttention(hidden)])
        self.norm = nn.ModuleList([nn.RMSNorm(hidden), nn.RMSNorm(hidden)])
        self.unembedding = nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = self.embedding(ids) + self.pos.weight[: ids.shape[1]]
        for n, b in zip(self.norm, self.block):
            x = x + b(n(x))
        return self.unembedding(x)


torch.manual_seed(1)
model = SinkLM().eval()
inputs = (torch.randint(0, 100, (2, 14), generator=torch.Generator().manual_seed(1)),)
expect = {"causal": True, "window": [5, None]}
