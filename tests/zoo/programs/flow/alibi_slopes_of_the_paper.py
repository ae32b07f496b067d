"""Summariser decoder with linear biases passed to the fused kernel."""

import torch
from torch import nn
import torch.nn.functional as F


def alibi_bias(heads, length):
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    steps = torch.arange(length)
    relative = (steps[None, :] - steps[:, None]).float()
    bias = slopes[:, None, None] * relative
    return bias.masked_fill(relative > 0, float("-inf"))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, bias):
        h = self.norm(x)
        k, v = self.kv(h).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(h), k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return x + self.o(y.transpose(1, 2).flatten(2))


class Summariser(nn.Module):
    def __init__(self, vocab=85, width=60, heads=4, depth=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        bias = alibi_bias(self.heads, ids.shape[1])
        for layer in self.layers:
            x = layer(x, bias)
        return self.lm_head(x)


with torch.random.fork_rng():
    torch.manual_seed(66)
    model = Summariser().eval()

inputs = {"ids": torch.randint(0, 85, (2, 20), generator=torch.Generator().manual_seed(66))}
expect = {"causal": True}
