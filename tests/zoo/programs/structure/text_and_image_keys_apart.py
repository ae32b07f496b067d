"""Text and image tokens come in one sequence of context and are read apart, each with its weight."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Decoupled(nn.Module):
    def __init__(self, d=32, heads=4, n_image=3, weight=0.5):
        super().__init__()
        self.heads, self.n_image, self.weight = heads, n_image, weight
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, context):
        split = lambda z: z.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(context)), split(self.v(context))
        m = k.shape[2] - self.n_image
        text = F.scaled_dot_product_attention(q, k[:, :, :m], v[:, :, :m])
        image = F.scaled_dot_product_attention(q, k[:, :, m:], v[:, :, m:])
        return x + self.o((text + self.weight * image).transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Decoupled().eval()
_g = torch.Generator().manual_seed(0)
inputs = (torch.randn(2, 9, 32, generator=_g), torch.randn(2, 8, 32, generator=_g))
