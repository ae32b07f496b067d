"""Decoder without any positional encoding, as an ablation."""

import torch
from torch import nn
import torch.nn.functional as F


class NoPE(nn.Module):
    def __init__(self, vocab=54, d=32, heads=4, depth=2):
        super().__init__()
        self.heads = heads
        self.e = nn.Embedding(vocab, d)
        self.w = nn.ModuleList(nn.ModuleDict({"n": nn.LayerNorm(d), "i": nn.Linear(d, 3 * d), "o": nn.Linear(d, d)}) for _ in range(depth))

    def forward(self, ids):
        x = self.e(ids)
        for w in self.w:
            q, k, v = w["i"](w["n"](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + w["o"](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x @ self.e.weight.T


torch.manual_seed(27)
model = NoPE().eval()
inputs = torch.randint(0, 54, (3, 15))
expect = {"causal": True, "positions": False}
