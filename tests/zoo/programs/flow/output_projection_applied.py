"""Graph-like set encoder from a library of layers; multi-head attention with output layer."""

import torch
from torch import nn
import torch.nn.functional as F


class MultiHead(nn.Module):
    def __init__(self, embed_dim, num_heads, bias=True):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, x):
        packed = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in packed.chunk(3, -1))
        context = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(context.transpose(1, 2).flatten(2))


class SetEncoder(nn.Module):
    def __init__(self, features=10, width=40, heads=8):
        super().__init__()
        self.lift = nn.Linear(features, width)
        self.attention = MultiHead(width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, points):
        x = self.lift(points)
        return self.norm(x + self.attention(x)).amax(1)


with torch.random.fork_rng():
    torch.manual_seed(102)
    model = SetEncoder().eval()

inputs = torch.randn(3, 12, 10, generator=torch.Generator().manual_seed(102))
# note: AS501
