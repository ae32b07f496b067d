"""Long-context attention in blocks of keys, joined by their log-sum-exps."""

import torch
import torch.nn as nn
import torch.nn.functional as F


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
        outs, sums = [], []
        for kb, vb in zip(k.split(self.block, 2), v.split(self.block, 2)):
            outs.append(F.scaled_dot_product_attention(q, kb, vb))
            sums.append((q @ kb.transpose(-1, -2) / shape[-1] ** 0.5).logsumexp(-1))
        share = torch.stack(sums).softmax(0)[..., None]
        acc = (share * torch.stack(outs)).sum(0)
        return self.to_o(acc.transpose(1, 2).reshape(n, s, c))


torch.manual_seed(0)
model = BlockedAttention().eval()
inputs = torch.randn(2, 15, 48, generator=torch.Generator().manual_seed(0))
