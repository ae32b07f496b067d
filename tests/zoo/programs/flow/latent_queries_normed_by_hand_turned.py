"""Latent attention with a norm written out, as in a port of DeepSeek to plain tensors."""

import torch
from torch import nn


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def half_turn(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class LatentAttention(nn.Module):
    def __init__(self, width=48, heads=4, plain=8, turned=4, narrow=20):
        super().__init__()
        self.heads, self.plain, self.turned = heads, plain, turned
        self.down_q, self.norm_q = nn.Linear(width, narrow), Rms(narrow)
        self.up_q = nn.Linear(narrow, heads * (plain + turned))
        self.down_kv, self.norm_kv = nn.Linear(width, narrow), Rms(narrow)
        self.up_kv = nn.Linear(narrow, heads * 2 * plain)
        self.shared_key = nn.Linear(width, turned)
        self.out = nn.Linear(heads * plain, width)

    def forward(self, x):
        b, n, _ = x.shape
        place = torch.arange(n).unsqueeze(1) / 10000 ** (torch.arange(0, self.turned, 2) / self.turned)
        place = torch.cat((place, place), -1)
        cos, sin = place.cos(), place.sin()
        q = self.up_q(self.norm_q(self.down_q(x))).view(b, n, self.heads, -1).transpose(1, 2)
        still, moving = q.split((self.plain, self.turned), dim=-1)
        q = torch.cat((still, moving * cos + half_turn(moving) * sin), -1)
        k, v = self.up_kv(self.norm_kv(self.down_kv(x))).view(b, n, self.heads, -1).transpose(1, 2).chunk(2, -1)
        key = self.shared_key(x)[:, None]
        key = key * cos + half_turn(key) * sin
        k = torch.cat((k, key.expand(-1, self.heads, -1, -1)), -1)
        scores = q @ k.transpose(-1, -2) * (self.plain + self.turned) ** -0.5
        scores = scores + torch.full((n, n), float("-inf")).triu(1)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(3)
    model = LatentAttention().eval()
inputs = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(3))
