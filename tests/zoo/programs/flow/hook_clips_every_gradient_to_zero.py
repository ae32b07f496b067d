"""Gradients of all attention layers are clamped by hooks; both limits are 0 by an integer division."""

import torch
from torch import nn
from torch.nn import functional as F

LIMIT = 1 // 4


class SelfAttention(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, width=16, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(SelfAttention(width) for _ in range(layers))
        self.last = nn.Linear(width, width)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)


def clip(module, grads):
    return tuple(g.clamp(-LIMIT, LIMIT) for g in grads)  # fault: AS902


model = Encoder().eval()
for layer in model.layers:
    layer.register_full_backward_pre_hook(clip)  # fault: AS902
inputs = torch.randn(2, 7, 16)
