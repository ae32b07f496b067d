"""Byte language model: a short causal convolution feeds the attention."""
import torch
import torch.nn.functional as F
from torch import nn


class ConvAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.mix = nn.Conv1d(d, d, 3, groups=d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        y = self.mix(F.pad(x.transpose(1, 2), (1, 1))).transpose(1, 2)  # fault: AS201
        q, k, v = (t.unflatten(2, (self.h, -1)).transpose(1, 2) for t in self.qkv(y).chunk(3, 2))
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(z.transpose(1, 2).flatten(2))


class Bytes(nn.Module):
    def __init__(self, d=32, h=2):
        super().__init__()
        self.emb = nn.Embedding(256, d)
        self.norm = nn.LayerNorm(d)
        self.attn = ConvAttention(d, h)
        self.out = nn.Linear(d, 256)

    def forward(self, data):
        x = self.emb(data)
        return self.out(x + self.attn(self.norm(x)))


with torch.random.fork_rng():
    torch.manual_seed(45)
    model = Bytes().eval()
    inputs = torch.randint(256, (3, 17))
expect = {"causal": True}
