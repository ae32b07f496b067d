"""Beam scorer: hypotheses of a sentence stand next to each other and read its encoder states."""

import math

import torch
from torch import nn


class BeamScorer(nn.Module):
    def __init__(self, vocab=46, dim=27, heads=3):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(20, dim)
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocab)

    def cross(self, x, memory, memory_mask):
        n, t, d = x.shape
        q = self.wq(x).view(n, t, self.heads, -1).transpose(1, 2)
        k = self.wk(memory).view(n, -1, self.heads, d // self.heads).transpose(1, 2)
        v = self.wv(memory).view(n, -1, self.heads, d // self.heads).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(d // self.heads)
        scores = scores.masked_fill(memory_mask[:, None, None, :] == 0, -1e9)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))

    def forward(self, hypotheses, memory, memory_mask):
        """hypotheses (batch, beams, length); memory (batch, source, dim)."""
        b, beams, t = hypotheses.shape
        memory = memory.repeat_interleave(beams, dim=0)
        memory_mask = memory_mask.repeat(beams, 1)  # fault: AS211
        x = self.embed(hypotheses.view(b * beams, t)) + self.pos(torch.arange(t))
        x = self.norm(x + self.cross(x, memory, memory_mask))
        return self.out(x).log_softmax(-1).view(b, beams, t, -1)


# also: AS102 AS202 AS212
with torch.random.fork_rng():
    torch.manual_seed(58)
    model = BeamScorer().eval()


def inputs():
    g = torch.Generator().manual_seed(58)
    return {
        "hypotheses": torch.randint(0, 46, (3, 4, 6), generator=g),
        "memory": torch.randn(3, 9, 27, generator=g),
        "memory_mask": (torch.arange(9)[None] < torch.tensor([[9], [3], [6]])).long(),
    }


expect = {"padding": "memory_mask keep"}
