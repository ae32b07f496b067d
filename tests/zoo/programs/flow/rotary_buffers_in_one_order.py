"""Rotary tables kept as buffers, heads last but one, as in code that has its own little library."""

import torch
from torch import nn


def tables(length, width, base=10000.0):
    rate = base ** (-torch.arange(0, width, 2) / width)
    angle = torch.arange(length).unsqueeze(-1) * rate
    cos = torch.cat((angle.cos(), angle.cos()), dim=-1)
    sin = torch.cat((angle.sin(), angle.sin()), dim=-1)
    return cos, sin


class Turn(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        cos, sin = tables(length, width)
        self.register_buffer("cos", cos[:, None])
        self.register_buffer("sin", sin[:, None])

    def forward(self, x):
        n, half = x.shape[1], x.shape[-1] // 2
        other = torch.roll(x, half, dims=-1)
        other = torch.cat((-other[..., :half], other[..., half:]), dim=-1)
        return torch.addcmul(x * self.cos[:n], other, self.sin[:n])


class Encoder(nn.Module):
    def __init__(self, words=60, width=36, heads=3):
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(words, width)
        self.turn = Turn(64, width // heads)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, ids):
        x = self.words(ids)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k = self.turn(q), self.turn(k)
        y = nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)))
        return x + self.out(y.transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = Encoder().eval()
inputs = torch.randint(0, 60, (2, 11), generator=torch.Generator().manual_seed(8))
