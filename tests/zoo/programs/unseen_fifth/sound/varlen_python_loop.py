"""Unpadded ModernBERT-like encoder: tokens are packed flat, attention runs per document via cu_seqlens."""
import torch
from torch import nn
import torch.nn.functional as F


class UnpaddedAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.hd = h, d // h
        self.Wqkv, self.Wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, cu_seqlens):
        qkv = self.Wqkv(x).view(-1, 3, self.h, self.hd)
        outs = []
        for a, b in zip(cu_seqlens[:-1].tolist(), cu_seqlens[1:].tolist()):
            q, k, v = qkv[a:b].permute(1, 2, 0, 3)
            outs.append(F.scaled_dot_product_attention(q[None], k[None], v[None])[0].transpose(0, 1).flatten(1))
        return self.Wo(torch.cat(outs))


class UnpaddedEncoder(nn.Module):
    def __init__(self, vocab=180, d=48, h=4, n=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.attn = nn.ModuleList(UnpaddedAttention(d, h) for _ in range(n))
        self.norm = nn.ModuleList(nn.LayerNorm(d) for _ in range(n + 1))

    def forward(self, flat_ids, cu_seqlens):
        lens = (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()
        pos = torch.cat([torch.arange(n) for n in lens])
        x = self.tok(flat_ids) + self.pos(pos)
        for n, a in zip(self.norm, self.attn):
            x = x + a(n(x), cu_seqlens)
        return self.norm[-1](x)


with torch.random.fork_rng():
    torch.manual_seed(17)
    model = UnpaddedEncoder().eval()
inputs = {"flat_ids": torch.randint(0, 180, (19,), generator=torch.Generator().manual_seed(17)),
          "cu_seqlens": torch.tensor([0, 7, 11, 19], dtype=torch.int32)}
