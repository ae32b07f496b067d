"""Segment-anything style decoder: prompt tokens and image attend to each other in a smaller inner width."""
import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, embedding_dim: int, num_heads: int, downsample_rate: int = 1) -> None:
        super().__init__()
        self.internal_dim = embedding_dim // downsample_rate
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(embedding_dim, self.internal_dim) for _ in range(3))
        self.out_proj = nn.Linear(self.internal_dim, embedding_dim)

    def _separate_heads(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        return x.reshape(b, n, self.num_heads, c // self.num_heads).transpose(1, 2)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = map(self._separate_heads, (self.q_proj(q), self.k_proj(k), self.v_proj(v)))
        attn = torch.softmax(q @ k.permute(0, 1, 3, 2) / math.sqrt(q.shape[-1]), dim=-1)
        out = (attn @ v).transpose(1, 2)
        return self.out_proj(out.reshape(out.shape[0], out.shape[1], -1))


class TwoWay(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.self_attn, self.t2i, self.i2t = Attention(d, h), Attention(d, h, 2), Attention(d, h, 2)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, queries, keys, query_pe, key_pe):
        q = queries + query_pe
        queries = self.norm1(queries + self.self_attn(q=q, k=q, v=queries))
        queries = self.norm2(queries + self.t2i(q=queries + query_pe, k=keys + key_pe, v=keys))
        keys = self.norm3(keys + self.i2t(q=keys + key_pe, k=queries + query_pe, v=queries))
        return queries, keys


with torch.random.fork_rng():
    torch.manual_seed(13)
    model = TwoWay().eval()
_g = torch.Generator().manual_seed(13)
inputs = tuple(torch.randn(2, n, 32, generator=_g) for n in (5, 14, 5, 14))
