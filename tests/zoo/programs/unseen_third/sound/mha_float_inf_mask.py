"""Decoder-only toy with nn.MultiheadAttention and my own mask helper."""
import torch
import torch.nn as nn


def causal_mask(size):
    return torch.triu(torch.full((size, size), float("-inf")), diagonal=1)


class DecoderBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        h = self.n1(x)
        h, _ = self.attn(h, h, h, attn_mask=causal_mask(x.size(1)), need_weights=False)
        x = x + h
        return x + self.mlp(self.n2(x))


class CharModel(nn.Module):
    def __init__(self, chars=50, d=30, h=3):
        super().__init__()
        self.c, self.p = nn.Embedding(chars, d), nn.Embedding(64, d)
        self.net = nn.Sequential(DecoderBlock(d, h), DecoderBlock(d, h), nn.LayerNorm(d), nn.Linear(d, chars))

    def forward(self, idx):
        return self.net(self.c(idx) + self.p.weight[: idx.size(1)])


torch.manual_seed(0)
model = CharModel().eval()
