"""Encoder layer after head pruning by masking the output projection."""

import torch
from torch import nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, dim=40, heads=5):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def prune(self, head):
        size = self.out.in_features // self.heads
        with torch.no_grad():
            self.out.weight[:, head * size : (head + 1) * size] = 0

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS401
        return x + self.out(y.transpose(1, 2).flatten(2))  # fault: AS401


def model():
    with torch.random.fork_rng():
        torch.manual_seed(125)
        layer = Layer()
    layer.prune(2)
    return layer.eval()


inputs = torch.randn(2, 12, 40, generator=torch.Generator().manual_seed(125))
