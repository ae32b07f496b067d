"""Chunk-wise speech encoder: a chunk of frames attends to cached left context and to itself."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChunkAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.linear_q, self.linear_kv, self.linear_out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, chunk, left):
        b, t, d = chunk.shape
        ctx = torch.cat([left, chunk], dim=1)
        q = self.linear_q(chunk).view(b, t, self.h, -1).transpose(1, 2)
        k, v = self.linear_kv(ctx).view(b, -1, 2, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS206
        return self.linear_out(x.transpose(1, 2).flatten(2))


class ChunkEncoder(nn.Module):
    def __init__(self, feats=12, d=32):
        super().__init__()
        self.embed, self.norm, self.att = nn.Linear(feats, d), nn.LayerNorm(d), ChunkAttention(d)
        self.age = nn.Embedding(64, d)
        self.ctc = nn.Linear(d, 30)

    def forward(self, feats, left_feats):
        n, l = feats.size(1), left_feats.size(1)
        pos = self.age(torch.arange(l + n))
        x = self.embed(feats) + pos[l:]
        left = self.norm(self.embed(left_feats) + pos[:l])
        return self.ctc(x + self.att(self.norm(x), left))


# also: AS212
with torch.random.fork_rng():
    torch.manual_seed(110)
    model = ChunkEncoder().eval()
_g = torch.Generator().manual_seed(110)
inputs = {"feats": torch.randn(2, 8, 12, generator=_g), "left_feats": torch.randn(2, 11, 12, generator=_g)}
