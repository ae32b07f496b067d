"""A decoder that keeps its cache in bfloat16 to save memory, which full passes don't need."""
import torch
from torch import nn
import torch.nn.functional as F


class HalfCacheDecoder(nn.Module):
    def __init__(self, vocab=40, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(32, dim)
        self.qkv, self.o, self.lm = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Linear(dim, vocab)

    def forward(self, ids, past=None):
        b, t = ids.shape
        n = 0 if past is None else past[0].size(2)
        x = self.emb(ids) + self.pos.weight[n : n + t]
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0].to(k), k], 2), torch.cat([past[1].to(v), v], 2)
        seen = torch.ones(t, n + t, dtype=torch.bool).tril(n)
        y = F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), attn_mask=seen)
        return self.lm(x + self.o(y.transpose(1, 2).reshape(b, t, -1))), (k.bfloat16(), v.bfloat16())


torch.manual_seed(12)
model = HalfCacheDecoder().eval()
inputs = {"ids": torch.randint(0, 40, (2, 9))}
expect = {"causal": True, "cache": "past"}
