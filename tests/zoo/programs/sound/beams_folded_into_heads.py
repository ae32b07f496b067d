# Beams share the keys of their source: projected once, expanded, all folded for bmm.
import torch
from torch import nn


class BeamReader(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, z):
        return z.unflatten(-1, (self.heads, self.size)).transpose(-3, -2)

    def forward(self, beams, memory):
        b, m, n, c = beams.shape
        k, v = (
            z[:, None].expand(-1, m, -1, -1, -1).flatten(0, 2)
            for z in (self.split(self.k(memory)), self.split(self.v(memory)))
        )
        q = self.split(self.q(beams)).flatten(0, 2) * self.size**-0.5
        y = torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)
        y = y.view(b, m, self.heads, n, self.size).transpose(2, 3).flatten(3)
        return self.out(y)


torch.manual_seed(0)
model = BeamReader().eval()
inputs = {"beams": torch.randn(2, 3, 5, 32), "memory": torch.randn(2, 7, 32)}
