"""Packed fine-tuning: documents as cu_seqlens, one call per document."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VarlenLM(nn.Module):
    def __init__(self, vocab=63, d=32, h=4):
        super().__init__()
        self.h = h
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.n, self.qkv, self.o, self.head = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Linear(d, vocab)

    def forward(self, ids, cu_seqlens):
        """ids: (1, total)"""
        bounds = cu_seqlens.tolist()
        pos = torch.cat([torch.arange(e - s) for s, e in zip(bounds, bounds[1:])])
        x = self.e(ids) + self.p(pos)
        q, k, v = self.qkv(self.n(x)).view(1, ids.size(1), 3, self.h, -1).permute(2, 0, 3, 1, 4)
        parts = [F.scaled_dot_product_attention(q[:, :, s:e], k[:, :, s:e], v[:, :, s:e], is_causal=True) for s, e in zip(bounds, bounds[1:])]
        return self.head(x + self.o(torch.cat(parts, 2).transpose(1, 2).flatten(2)))


torch.manual_seed(0)
model = VarlenLM().eval()
inputs = {"ids": torch.randint(0, 63, (1, 16), generator=torch.Generator().manual_seed(0)), "cu_seqlens": torch.tensor([0, 5, 12, 16])}
expect = {"causal": True}
