"""ALiBi in a causal decoder: slopes have the axis of heads first, and SDPA takes it for samples."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(width, 3 * width, bias=False)
        self.out_proj = nn.Linear(width, width, bias=False)
        slopes = [2 ** (-8 * (i + 1) / heads) for i in range(heads)]
        self.register_buffer(
            "slopes",
            torch.tensor(slopes).view(heads, 1, 1, 1),  # fault: AS211
        )

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.in_proj(x).chunk(3, dim=-1)
        )
        steps = torch.arange(t)
        bias = self.slopes * (steps[None, :] - steps[:, None])  # fault: AS211
        bias = bias.masked_fill(steps[None, :] > steps[:, None], -math.inf)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)  # fault: AS211
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=32, heads=2, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.layers = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return self.head(x)


model = Decoder().eval()
inputs = {"ids": torch.randint(0, 50, (2, 11))}
expect = {"causal": True}
