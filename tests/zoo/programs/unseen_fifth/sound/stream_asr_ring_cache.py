"""Streaming acoustic encoder with limited left context and a key/value cache between chunks."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from typing import Optional, Tuple, List


class StreamAttention(nn.Module):
    def __init__(self, d, heads, left):
        super().__init__()
        self.heads, self.left = heads, left
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        slopes = torch.tensor([2.0 ** -(i + 1) for i in range(heads)])
        self.register_buffer("slopes", slopes)

    def forward(self, x, past: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        B, T, d = x.shape
        q = self.q(x).view(B, T, self.heads, -1).transpose(1, 2)
        k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.kv(x).chunk(2, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.size(2)
        age = torch.arange(S - T, S)[:, None] - torch.arange(S)[None]
        bias = -self.slopes[:, None, None] * age
        bias = bias.masked_fill((age < 0) | (age >= self.left), float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None].expand(B, -1, -1, -1))
        keep = self.left - 1
        return self.o(y.transpose(1, 2).reshape(B, T, d)), (k[:, :, -keep:], v[:, :, -keep:])


class StreamEncoder(nn.Module):
    def __init__(self, mels=14, d=32, heads=4, left=8, depth=2, out=11):
        super().__init__()
        self.inp = nn.Linear(mels, d)
        self.layers = nn.ModuleList(StreamAttention(d, heads, left) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.ctc = nn.Linear(d, out)

    def forward(self, mel, cache: Optional[List] = None):
        x = self.inp(mel)
        new = []
        for i, (a, n) in enumerate(zip(self.layers, self.norms)):
            y, c = a(n(x), None if cache is None else cache[i])
            x = x + y
            new.append(c)
        return self.ctc(x), new


def model():
    with torch.random.fork_rng():
        torch.manual_seed(59)
        return StreamEncoder().eval()


inputs = {"mel": torch.randn(2, 20, 14, generator=torch.Generator().manual_seed(60))}
expect = {"causal": True, "window": 8, "cache": "cache"}
