"""Image patches read both ways, text after them is causal (PaliGemma-like)."""

import torch
from torch import nn
import torch.nn.functional as F


class VLM(nn.Module):
    def __init__(self, patch=14, d=36, heads=4, vocab=64):
        super().__init__()
        self.heads = heads
        self.see, self.tok, self.pos = nn.Linear(patch, d), nn.Embedding(vocab, d), nn.Embedding(48, d)
        self.norm, self.qkv, self.o = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, pixels, tokens):
        p, t = pixels.size(1), tokens.size(1)
        x = torch.cat([self.see(pixels), self.tok(tokens)], 1)
        x = x + self.pos.weight[: p + t]
        allow = torch.ones(p + t, p + t, dtype=torch.bool).tril()
        allow[:p, :p] = True
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x[:, p:] @ self.tok.weight.T


torch.manual_seed(9)
model = VLM().eval()
inputs = {"pixels": torch.randn(3, 9, 14), "tokens": torch.randint(0, 64, (3, 11))}
