"""Perceiver: latents read a long audio input, then talk among themselves."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Read(nn.Module):
    def __init__(self, dl, dx, heads):
        super().__init__()
        self.heads = heads
        self.nl, self.nx = nn.LayerNorm(dl), nn.LayerNorm(dx)
        self.q, self.kv, self.o = nn.Linear(dl, dl), nn.Linear(dx, 2 * dl), nn.Linear(dl, dl)

    def forward(self, z, x):
        s = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(self.nx(x)).chunk(2, -1)
        return z + self.o(F.scaled_dot_product_attention(s(self.q(self.nl(z))), s(k), s(v)).transpose(1, 2).flatten(2))


class Perceiver(nn.Module):
    def __init__(self, dx=18, dl=32, n=5):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n, dl) * .3)
        self.pos = nn.Parameter(torch.randn(80, dx) * .1)
        self.read, self.self_ = Read(dl, dx, 4), Read(dl, dl, 2)
        self.out = nn.Linear(dl, 3)

    def forward(self, audio):
        z = self.latents.expand(audio.size(0), -1, -1)
        z = self.read(z, audio + self.pos[:audio.size(1)])
        z = self.self_(z, z)
        return self.out(z.mean(1))


torch.manual_seed(11)
model = Perceiver().eval()
inputs = torch.randn(3, 50, 18, generator=torch.Generator().manual_seed(11))
# note: AS501
