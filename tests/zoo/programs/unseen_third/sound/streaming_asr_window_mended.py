"""Streaming encoder: every frame sees itself and the `left` frames before it."""
import torch
import torch.nn as nn


class StreamAttn(nn.Module):
    def __init__(self, size, heads, left):
        super().__init__()
        self.h, self.left = heads, left
        self.in_w = nn.Parameter(torch.empty(3 * size, size))
        self.out = nn.Linear(size, size)
        nn.init.xavier_uniform_(self.in_w)

    def band(self, n, dev):
        i = torch.arange(n, device=dev)
        dist = i[:, None] - i[None, :]
        return (dist >= 0) & (dist <= self.left)

    def forward(self, x):
        n, b, c = x.shape  # time first
        q, k, v = nn.functional.linear(x, self.in_w).chunk(3, -1)
        f = lambda a: a.reshape(n, b * self.h, c // self.h).transpose(0, 1)
        q, k, v = f(q), f(k), f(v)
        s = torch.baddbmm(torch.zeros(1), q, k.transpose(1, 2), beta=0, alpha=(c // self.h) ** -0.5)
        s = s.masked_fill(~self.band(n, x.device), float("-inf"))
        y = torch.bmm(s.softmax(-1), v).transpose(0, 1).reshape(n, b, c)
        return self.out(y)


class StreamingEncoder(nn.Module):
    def __init__(self, feat=16, size=40, heads=5, left=3, n_layers=2):
        super().__init__()
        self.front = nn.Linear(feat, size)
        self.layers = nn.ModuleList([StreamAttn(size, heads, left) for _ in range(n_layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(n_layers)])

    def forward(self, feats):
        x = self.front(feats).transpose(0, 1)
        for l, n in zip(self.layers, self.norms):
            x = x + l(n(x))
        return x.transpose(0, 1)


with torch.random.fork_rng():
    torch.manual_seed(17)
    model = StreamingEncoder(left=3).eval()
inputs = (torch.randn(2, 18, 16, generator=torch.Generator().manual_seed(9)),)
expect = {"causal": True, "window": 4}
