"""Encoder with sinusoids in two halves, as tensor2tensor lays them out."""

import math

import torch
from torch import nn


def sinusoidal_table(num, dim, padding_idx):
    half = dim // 2
    step = math.log(10000) / (half - 1)
    freq = torch.exp(torch.arange(half, dtype=torch.float) * -step)
    angle = torch.arange(num, dtype=torch.float).unsqueeze(1) * freq.unsqueeze(0)
    table = torch.cat([torch.sin(angle), torch.cos(angle)], dim=1)
    table[padding_idx] = 0
    return table


class Encoder(nn.Module):
    def __init__(self, vocab=70, dim=32, heads=4, padding_idx=1):
        super().__init__()
        self.padding_idx, self.heads = padding_idx, heads
        self.embed = nn.Embedding(vocab, dim, padding_idx)
        self.register_buffer("table", sinusoidal_table(100, dim, padding_idx))
        self.attn = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        real = tokens.ne(self.padding_idx)
        places = real.long().cumsum(1) * real.long() + self.padding_idx
        x = self.embed(tokens) * self.embed.embedding_dim**0.5 + self.table[places]
        x = x.transpose(0, 1)
        y, _ = self.attn(x, x, x, key_padding_mask=~real, need_weights=False)
        return self.norm(x + y).transpose(0, 1)


def make_tokens():
    tokens = torch.randint(2, 70, (3, 12), generator=torch.Generator().manual_seed(150))
    tokens[1, 8:] = 1
    tokens[2, 5:] = 1
    return tokens


with torch.random.fork_rng():
    torch.manual_seed(150)
    model = Encoder().eval()

inputs = {"tokens": make_tokens()}
expect = {"padding": "tokens pad=1"}
