"""Value projections are frozen for a while, by a hook on the parameter itself."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.v.weight.register_hook(torch.zeros_like)
        self.v.bias.register_hook(torch.zeros_like)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / x.shape[-1] ** 0.5
        return x + scores.softmax(-1) @ self.v(x)


model = Attention().eval()
inputs = torch.randn(2, 8, 16)
