"""Decoder block with cosine attention and a learned temperature."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineDecoderAttention(nn.Module):
    def __init__(self, width=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.logit_scale = nn.Parameter(torch.full((n_heads, 1, 1), 6.0))

    def heads(self, z):
        return z.view(*z.shape[:2], self.n_heads, -1).transpose(1, 2)

    def forward(self, z):
        q = F.normalize(self.heads(self.q(z)), dim=-2)  # fault: AS305|AS201
        k = F.normalize(self.heads(self.k(z)), dim=-1)
        s = q @ k.transpose(-1, -2) * self.logit_scale
        n = z.shape[1]
        s = s.masked_fill(
            torch.ones(n, n, dtype=torch.bool, device=z.device).triu(1), float("-inf")
        )
        return self.out((s.softmax(-1) @ self.heads(self.v(z))).transpose(1, 2).flatten(2))


class LM(nn.Module):
    def __init__(self, vocab=50, width=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(64, width)
        self.att, self.head = CosineDecoderAttention(width), nn.Linear(width, vocab)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        return self.head(x + self.att(x))


torch.manual_seed(0)
model = LM().eval()
inputs = {"idx": torch.randint(0, 50, (2, 13), generator=torch.Generator().manual_seed(0))}
expect = {"causal": True}
