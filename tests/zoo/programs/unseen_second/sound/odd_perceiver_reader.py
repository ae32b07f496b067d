"""Perceiver: a few latents read a long byte array, then talk to each other."""

import torch
from torch import nn
import torch.nn.functional as F


class Read(nn.Module):
    def __init__(self, dq, dkv, heads, dh):
        super().__init__()
        self.h = heads
        self.nq, self.nkv = nn.LayerNorm(dq), nn.LayerNorm(dkv)
        self.q, self.kv, self.o = nn.Linear(dq, heads * dh), nn.Linear(dkv, 2 * heads * dh), nn.Linear(heads * dh, dq)

    def forward(self, z, data):
        q = self.q(self.nq(z))
        k, v = self.kv(self.nkv(data)).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in (q, k, v))
        return z + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Perceiver(nn.Module):
    def __init__(self, latents=6, dz=28, dx=16, bytes_=64):
        super().__init__()
        self.z = nn.Parameter(torch.randn(latents, dz))
        self.byte, self.where = nn.Embedding(bytes_, dx), nn.Embedding(64, dx)
        self.cross, self.inner = Read(dz, dx, 2, 9), Read(dz, dz, 4, 7)
        self.out = nn.Linear(dz, 5)

    def forward(self, stream):
        data = self.byte(stream) + self.where.weight[: stream.size(1)]
        z = self.cross(self.z.expand(stream.size(0), -1, -1), data)
        return self.out(self.inner(z, z).mean(1))


torch.manual_seed(24)
model = Perceiver().eval()
inputs = torch.randint(0, 64, (3, 40))
