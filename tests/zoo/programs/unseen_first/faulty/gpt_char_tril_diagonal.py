"""Character-level GPT with a config dataclass and tied embeddings."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Conf:
    block: int = 24
    vocab: int = 61
    layers: int = 2
    heads: int = 3
    width: int = 42


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.qkv = nn.Linear(c.width, 3 * c.width)
        self.out = nn.Linear(c.width, c.width)
        self.h = c.heads
        tri = torch.ones(c.block, c.block).tril(diagonal=1)  # fault: AS201
        self.register_buffer("tri", tri.view(1, 1, c.block, c.block))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in self.qkv(x).split(C, dim=2))
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        att = att.masked_fill(self.tri[:, :, :T, :T] == 0, float("-inf"))  # fault: AS201
        y = F.softmax(att, dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.sa = SelfAttention(c)
        self.ff = nn.Sequential(nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width))

    def forward(self, x):
        x = x + self.sa(self.n1(x))
        return x + self.ff(self.n2(x))


class CharGPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.width)
        self.pos = nn.Embedding(c.block, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        for b in self.blocks:
            x = b(x)
        return self.norm(x) @ self.tok.weight.t()


def model():
    with torch.random.fork_rng():
        torch.manual_seed(1337)
        return CharGPT(Conf()).eval()


inputs = {"idx": torch.randint(0, 61, (4, 17), generator=torch.Generator().manual_seed(2))}
expect = {"causal": True}
