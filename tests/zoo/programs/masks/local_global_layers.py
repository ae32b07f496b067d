"""Hybrid decoder: local layers with a window, every third layer global."""

import torch
from torch import nn, einsum

PATTERN = ("local", "local", "global")


class Block(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.pre = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.post = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(self.pre(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        s = einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
        back = torch.arange(n)[:, None] - torch.arange(n)
        hidden = back < 0
        if self.window is not None:
            hidden = hidden | (back >= self.window)
        s = s.masked_fill(hidden, float("-inf"))
        y = einsum("bhij,bjhd->bihd", s.softmax(-1), v).flatten(2)
        return x + self.post(y)


class HybridLM(nn.Module):
    def __init__(self, vocab=58, dim=30, heads=2, depth=3, window=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(48, dim)
        self.blocks = nn.ModuleList()
        for i in range(depth):
            kind = PATTERN[i % len(PATTERN)]
            self.blocks.append(Block(dim, heads, window if kind == "local" else None))
        self.norm = nn.RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(53)
    model = HybridLM().eval()

inputs = {"tokens": torch.randint(0, 58, (2, 13), generator=torch.Generator().manual_seed(53))}
expect = {"causal": True, "window": [4, 4, None]}
