"""Unpadded encoder layer: sequences lie end to end, cu_seqlens tells where each begins."""

import torch
import torch.nn.functional as F
from torch import nn


def varlen_attention(qkv, cu_seqlens, softmax_scale=None):  # fault: AS208|AS209
    """Fallback for machines without the fused kernel. qkv: (total, 3, heads, head_dim)."""
    q, k, v = qkv.permute(1, 2, 0, 3).unsqueeze(1)
    out = F.scaled_dot_product_attention(q, k, v, scale=softmax_scale)  # fault: AS208|AS209
    return out.squeeze(0).transpose(0, 1)


def positions_from(cu_seqlens, total):
    starts = torch.zeros(total, dtype=torch.long)
    starts[cu_seqlens[:-1]] = cu_seqlens[:-1]
    return torch.arange(total) - starts.cummax(0).values


class UnpaddedEncoder(nn.Module):
    def __init__(self, vocab=52, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(24, dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.Wqkv, self.Wo = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, input_ids, cu_seqlens):
        """input_ids (total,), cu_seqlens (sequences + 1,) -> (total, dim)"""
        x = self.tok(input_ids) + self.pos(positions_from(cu_seqlens, input_ids.numel()))
        qkv = self.Wqkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1))
        x = x + self.Wo(varlen_attention(qkv, cu_seqlens).flatten(1))
        return x + self.mlp(self.norm2(x))


with torch.random.fork_rng():
    torch.manual_seed(64)
    model = UnpaddedEncoder().eval()

inputs = {
    "input_ids": torch.randint(0, 52, (19,), generator=torch.Generator().manual_seed(64)),
    "cu_seqlens": torch.tensor([0, 7, 11, 19]),
}
