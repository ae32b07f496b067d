"""Text-conditioned denoiser: blocks of self- and cross-attention in one class."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.a1 = nn.MultiheadAttention(d, 4, batch_first=True)
        self.a2 = nn.MultiheadAttention(d, 4, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))

    def forward(self, x, text):
        h = self.n1(x)
        x = x + self.a1(h, h, h, need_weights=False)[0]
        h = self.n2(x)
        x = x + self.a2(h, text, text, need_weights=False)[0]
        return x + self.ff(self.n3(x))


class Reader(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, inputs, states):
        split = lambda z: z.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        states = inputs if states is None else states
        q, k = split(self.wq(inputs)), split(self.wk(states))
        v = split(self.wv(states))
        return self.wo(
            nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        )


class Denoiser(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.mixer = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True, dropout=0.0)
        self.read = Reader(d)

    def forward(self, noisy, prompt):
        return noisy + self.read(self.mixer(noisy), prompt)


torch.manual_seed(0)
model = Denoiser().eval()
_g = torch.Generator().manual_seed(0)
inputs = (torch.randn(2, 12, 32, generator=_g), torch.randn(2, 5, 32, generator=_g))
