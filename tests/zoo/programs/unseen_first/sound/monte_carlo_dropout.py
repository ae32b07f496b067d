"""Bayesian sensor model: dropout stays on in evaluation to sample predictions."""
import torch
import torch.nn.functional as F
from torch import nn


class BayesAttention(nn.Module):
    def __init__(self, d=22, h=2, p=0.25):
        super().__init__()
        self.h, self.p = h, p
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return self.o(y.transpose(1, 2).flatten(2))


class Bayes(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.a, self.down = nn.Linear(5, 22), BayesAttention(), nn.Linear(22, 1)

    def forward(self, signal):
        x = self.up(signal)
        return self.down(x + self.a(x))


torch.manual_seed(71)
model = Bayes().eval()
inputs = torch.randn(3, 16, 5)
expect = {"dropout": "on in eval", "positions": False}
