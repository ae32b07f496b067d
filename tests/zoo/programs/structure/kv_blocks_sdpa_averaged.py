"""Long-context attention in blocks of keys, to fit into memory."""

import torch
import torch.nn as nn
from torch.nn.functional import scaled_dot_product_attention as sdpa


class BlockedAttention(nn.Module):
    def __init__(self, hidden=48, heads=6, block=5):
        super().__init__()
        self.heads, self.block = heads, block
        self.to_q, self.to_kv, self.to_o = (
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, 2 * hidden),
            nn.Linear(hidden, hidden),
        )

    def forward(self, h):
        n, s, c = h.shape
        shape = (n, s, self.heads, c // self.heads)
        q = self.to_q(h).view(shape).transpose(1, 2)
        k, v = (t.view(shape).transpose(1, 2) for t in self.to_kv(h).chunk(2, dim=-1))
        acc = torch.zeros_like(q)
        steps = range(0, s, self.block)
        for i in steps:
            some = slice(i, i + self.block)
            part = sdpa(q, k[:, :, some], v[:, :, some])  # fault: AS101|AS204
            acc = acc + part
        acc = acc / len(steps)
        return self.to_o(acc.transpose(1, 2).reshape(n, s, c))


torch.manual_seed(0)
model = BlockedAttention().eval()
inputs = torch.randn(2, 15, 48, generator=torch.Generator().manual_seed(0))
