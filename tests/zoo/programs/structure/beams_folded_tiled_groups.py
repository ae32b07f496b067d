# Beams and heads folded for bmm; the two kv heads are tiled over the four heads of each beam.
import torch
from torch import nn


class BeamReader(nn.Module):
    def __init__(self, width=32, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, kv_heads * self.size)
        self.v = nn.Linear(width, kv_heads * self.size)
        self.out = nn.Linear(width, width)

    def split(self, z):
        return z.unflatten(-1, (-1, self.size)).transpose(-3, -2)

    def forward(self, beams, memory):
        b, m, n, c = beams.shape
        k, v = self.split(self.k(memory)), self.split(self.v(memory))
        k = k.repeat(1, self.heads // self.kv_heads, 1, 1)  # fault: AS104
        v = v.repeat(1, self.heads // self.kv_heads, 1, 1)  # fault: AS104
        k, v = (z.repeat_interleave(m, 0).flatten(0, 1) for z in (k, v))
        q = self.split(self.q(beams)).flatten(0, 2) * self.size**-0.5
        y = torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(-1), v)
        return self.out(y.view(b, m, self.heads, n, self.size).transpose(2, 3).flatten(3))


torch.manual_seed(0)
model = BeamReader().eval()
inputs = {"beams": torch.randn(2, 3, 5, 32), "memory": torch.randn(2, 7, 32)}
