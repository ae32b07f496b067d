"""Decoder with rotary positions, projection and attention in two classes."""

import torch
from torch import nn
import torch.nn.functional as F


def rotary(x, table):
    cos, sin = table
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rotary_table(length, dim):
    rate = 10000.0 ** (-torch.arange(0, dim, 2) / dim)
    angle = torch.arange(length)[:, None] * rate
    return angle.cos(), angle.sin()


class Project(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x, table):
        q, k, v = self.linear(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return rotary(q, table), rotary(k, table), v  # fault: AS503


class Attend(nn.Module):
    def forward(self, q, k, v, table):
        q, k = rotary(q, table), rotary(k, table)  # fault: AS503
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    def __init__(self, vocab=68, width=48, heads=3):
        super().__init__()
        self.size = width // heads
        self.embed = nn.Embedding(vocab, width)
        self.norm = nn.RMSNorm(width)
        self.project = Project(width, heads)
        self.attend = Attend()
        self.out = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        table = rotary_table(ids.shape[1], self.size)
        x = x + self.out(self.attend(*self.project(self.norm(x), table), table))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(142)
    model = Decoder().eval()

inputs = {"ids": torch.randint(0, 68, (2, 15), generator=torch.Generator().manual_seed(142))}
expect = {"causal": True}
