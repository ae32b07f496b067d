"""Decoder-only LM without any positional encoding; order comes from the causal mask."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln = nn.LayerNorm(d)
        self.in_proj, self.out_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.h, -1)).transpose(-3, -2) for z in self.in_proj(self.ln(x)).chunk(3, -1))
        x = x + self.out_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(-3, -2).flatten(-2))
        return x + self.ff(x)


def make(vocab=83, d=42, h=6, n=3):
    return nn.Sequential(nn.Embedding(vocab, d), *[Layer(d, h) for _ in range(n)], nn.LayerNorm(d), nn.Linear(d, vocab))


torch.manual_seed(7)
model = make().eval()
inputs = torch.randint(0, 83, (3, 11), generator=torch.Generator().manual_seed(7))
expect = {"causal": True, "positions": False}
