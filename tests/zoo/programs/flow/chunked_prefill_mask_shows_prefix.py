"""Decoder attention that takes the prompt in chunks."""

import torch
from torch import nn
import torch.nn.functional as F


class ChunkedAttention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, width // heads
        self.wq = nn.Linear(width, heads * self.hd, bias=False)
        self.wk = nn.Linear(width, kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(width, kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(heads * self.hd, width, bias=False)

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv_heads, self.hd).transpose(1, 2)
        before = 0
        if cache is not None:
            before = cache[0].shape[2]
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        mask = F.pad(mask, (before, 0), value=True)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1)), (k, v)


with torch.random.fork_rng():
    torch.manual_seed(71)
    model = ChunkedAttention(48, 6, 2).eval()

inputs = {"x": torch.randn(2, 13, 48, generator=torch.Generator().manual_seed(71))}
expect = {"causal": True, "cache": "cache"}
