"""Sliding-window decoder whose cache keeps the last five tokens only."""

import torch
from torch import nn


class WindowLM(nn.Module):
    def __init__(self, vocab=49, d=28, heads=4, window=5):
        super().__init__()
        self.h, self.window = heads, window
        self.e, self.p, self.n = nn.Embedding(vocab, d), nn.Embedding(64, d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, ids, memory=None):
        b, t = ids.shape
        seen = 0 if memory is None else memory["seen"]
        x = self.e(ids) + self.p(torch.arange(seen, seen + t))
        q, k, v = self.qkv(self.n(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        kpos = torch.arange(seen, seen + t)
        if memory is not None:
            k, v = torch.cat([memory["k"], k], 2), torch.cat([memory["v"], v], 2)
            kpos = torch.cat([memory["pos"], kpos])
        lag = torch.arange(seen, seen + t)[:, None] - kpos[None]
        s = (q @ k.mT * q.size(-1) ** -0.5).masked_fill((lag < 0) | (lag >= self.window), float("-inf"))
        y = x + self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
        w = self.window
        new = {"k": k[:, :, :w], "v": v[:, :, :w], "pos": kpos[:w], "seen": seen + t}  # fault: AS601
        return y @ self.e.weight.T, new


torch.manual_seed(28)
model = WindowLM().eval()
inputs = {"ids": torch.randint(0, 49, (2, 14))}
expect = {"causal": True, "window": 5, "cache": "memory"}
