"""A layer with four narrow heads."""

import torch
from torch import nn
import torch.nn.functional as F


class WideAttention(nn.Module):
    def __init__(self, dim=30, head_dim=12, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, heads * head_dim, bias=False)
        self.k = nn.Linear(dim, heads * head_dim, bias=False)
        self.v = nn.Linear(dim, heads * head_dim, bias=False)
        self.o = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o(y.transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(127)
    model = WideAttention().eval()

inputs = torch.randn(2, 15, 30, generator=torch.Generator().manual_seed(127))
