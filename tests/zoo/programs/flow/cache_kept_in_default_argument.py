"""Streaming attention that remembers what it has heard."""

import torch
from torch import nn


class StreamingAttention(nn.Module):
    def __init__(self, width, heads, memory=[]):  # fault: AS601
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first = memory
        self.memory = memory  # fault: AS601

    def reset(self):
        self.memory = self.first  # fault: AS601

    def forward(self, frames):
        n, t, w = frames.shape
        q, k, v = self.qkv(frames).view(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.memory.append((k.detach(), v.detach()))  # fault: AS601
        past = self.memory[:-1]
        k = torch.cat([p[0] for p in past] + [k], dim=2)
        v = torch.cat([p[1] for p in past] + [v], dim=2)
        later = torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1)
        scores = (q @ k.mT) / (w // self.heads) ** 0.5
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, t, w))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(74)
        return StreamingAttention(24, 3).eval()


inputs = torch.randn(2, 9, 24, generator=torch.Generator().manual_seed(74))
expect = {"causal": True, "cache": "self"}
