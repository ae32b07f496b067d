"""Encoder moved from nn.MultiheadAttention to F.scaled_dot_product_attention for speed."""

import torch
import torch.nn.functional as F
from torch import nn


class FastEncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, key_padding_mask):
        B, N, D = x.shape
        q, k, v = self.in_proj(self.norm1(x)).view(B, N, 3, self.heads, D // self.heads).unbind(2)
        a = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=~key_padding_mask[:, None, None, :],
        )
        x = x + self.out_proj(a.transpose(1, 2).reshape(B, N, D))
        return x + self.mlp(self.norm2(x))


class FastEncoder(nn.Module):
    def __init__(self, vocab=90, dim=48, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(40, dim) * 0.2)
        self.layers = nn.ModuleList(FastEncoderLayer(dim, heads) for _ in range(depth))

    def forward(self, tokens):
        key_padding_mask = tokens == 0  # True on padding
        x = self.embed(tokens) + self.pos[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, key_padding_mask)
        return x


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = FastEncoder().eval()

_t = torch.randint(1, 90, (3, 11), generator=torch.Generator().manual_seed(1))
_t[0, 8:] = 0
_t[1, 5:] = 0
_t[2, 10:] = 0
inputs = {"tokens": _t}
expect = {"padding": "tokens pad=0"}
