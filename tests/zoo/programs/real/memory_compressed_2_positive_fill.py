"""Causal attention over a memory compressed by strided convolution, https://github.com/lucidrains/memory-compressed-attention/issues/2."""

import torch
from torch import einsum, nn


class MemoryCompressedAttention(nn.Module):
    def __init__(self, dim, heads=4, compression_factor=3):
        super().__init__()
        self.heads = heads
        self.compression_factor = compression_factor
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.compress = nn.Conv1d(dim, dim, compression_factor, stride=compression_factor, groups=heads)
        self.null_k = nn.Parameter(torch.zeros(1, 1, dim))
        self.null_v = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        h, cf = self.heads, self.compression_factor
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        k, v = (self.compress(s.transpose(1, 2)).transpose(1, 2) for s in (k, v))
        k = torch.cat((self.null_k.expand(b, -1, -1), k), dim=1)
        v = torch.cat((self.null_v.expand(b, -1, -1), v), dim=1)
        q, k, v = (s.reshape(b, -1, h, d // h).transpose(1, 2) for s in (q, k, v))
        dots = einsum("bhid,bhjd->bhij", q, k) * (d // h) ** -0.5
        mask_q = torch.arange(t)[:, None]
        mask_k = torch.arange(k.shape[2])[None, :]
        future = mask_k * cf > mask_q + 1
        dots.masked_fill_(future, -float("-inf"))  # fault: AS207|AS802
        attn = dots.softmax(dim=-1)
        out = einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, t, d))


# also: AS201
with torch.random.fork_rng():
    torch.manual_seed(2)
    model = MemoryCompressedAttention(dim=32).eval()
    inputs = torch.randn(2, 12, 32)
expect = {"causal": True}
