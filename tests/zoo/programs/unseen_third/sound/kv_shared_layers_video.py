"""Video encoder: the second layer reuses keys and values of the first; keys serve as values too (tied)."""
import torch
import torch.nn as nn


class TiedAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h, self.q, self.o, self.n = h, nn.Linear(d, d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x, kv):
        b, n, d = x.shape
        q = self.q(self.n(x)).view(b, n, self.h, -1).transpose(1, 2)
        a = (q @ kv.mT * (d // self.h) ** -0.5).softmax(-1)
        return x + self.o((a @ kv).transpose(1, 2).reshape(b, n, d))


class Shared(nn.Module):
    def __init__(self, f=9, d=32, h=4):
        super().__init__()
        self.h, self.inp, self.pos, self.kv = h, nn.Linear(f, d), nn.Parameter(torch.randn(30, d) * 0.2), nn.Linear(d, d)
        self.l1, self.l2, self.norm = TiedAttention(d, h), TiedAttention(d, h), nn.LayerNorm(d)

    def forward(self, frames):
        x = self.inp(frames) + self.pos[: frames.size(1)]
        kv = self.kv(self.norm(x)).unflatten(-1, (self.h, -1)).transpose(1, 2)
        return self.l2(self.l1(x, kv), kv)


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = Shared().eval()
inputs = torch.randn(2, 13, 9, generator=torch.Generator().manual_seed(70))
