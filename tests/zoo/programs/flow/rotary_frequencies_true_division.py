"""Rotary attention for symbolic music, partial rotation of each head."""

import torch
from torch import nn
from torch.nn.functional import softmax


class PartialRotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.dim = dim
        freq = base ** -(torch.arange(0, dim, 2) / dim)
        self.register_buffer("freq", freq)

    def forward(self, x, pos):
        angle = pos[:, None] * self.freq
        cos, sin = torch.cos(angle), torch.sin(angle)
        rot, keep = x[..., : self.dim], x[..., self.dim :]
        one, two = rot[..., 0::2], rot[..., 1::2]
        rot = torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(-2)
        return torch.cat([rot, keep], -1)


class MusicAttention(nn.Module):
    def __init__(self, d=72, nh=3, rotary_share=0.5):
        super().__init__()
        self.nh, self.dh = nh, d // nh
        self.rotary = PartialRotary(int(self.dh * rotary_share))
        self.qkv = nn.Parameter(torch.randn(3, nh, d, self.dh) * d**-0.5)
        self.out = nn.Parameter(torch.randn(nh, self.dh, d) * d**-0.5)

    def forward(self, x):
        q, k, v = torch.einsum("btd,nhde->nbhte", x, self.qkv)
        pos = torch.arange(x.shape[1], dtype=x.dtype)
        q, k = self.rotary(q, pos), self.rotary(k, pos)
        logits = torch.einsum("bhte,bhse->bhts", q, k) / self.dh**0.5
        late = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        a = softmax(logits.masked_fill(late, float("-inf")), dim=-1)
        return torch.einsum("bhts,bhse,hed->btd", a, v, self.out)


with torch.random.fork_rng():
    torch.manual_seed(68)
    model = MusicAttention().eval()

inputs = (torch.randn(2, 18, 72, generator=torch.Generator().manual_seed(68)),)
