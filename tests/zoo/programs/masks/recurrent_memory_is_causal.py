"""Segment-level recurrence: the current segment reads a memory of earlier states before itself."""

import torch
import torch.nn.functional as F
from torch import nn


class MemoryAttention(nn.Module):
    """Causal within the segment; the memory lies before it and is visible to every position."""

    def __init__(self, dim=40, heads=5):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, segment, memory):
        b, t, d = segment.shape
        whole = torch.cat([memory, segment], dim=1)
        q = self.to_q(segment).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.to_kv(whole).view(b, whole.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS206
        return self.to_out(y.transpose(1, 2).reshape(b, t, d))


# also: AS212
with torch.random.fork_rng():
    torch.manual_seed(41)
    model = MemoryAttention().eval()


def inputs():
    g = torch.Generator().manual_seed(41)
    return {"segment": torch.randn(2, 6, 40, generator=g), "memory": torch.randn(2, 9, 40, generator=g)}


expect = {"causal": True}
