"""muP attention: the module keeps 1/head_dim, the residual has its own multiplier."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    def __init__(self, d=48, h=4, depth=6):
        super().__init__()
        self.h = h
        self.scale = h / d
        self.residual_multiplier = depth**-0.5
        self.w = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            each.unflatten(-1, (self.h, -1)).transpose(1, 2) for each in self.w(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v)  # fault: AS301
        return x + self.residual_multiplier * self.o(y.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Attn().eval()
inputs = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(0))
