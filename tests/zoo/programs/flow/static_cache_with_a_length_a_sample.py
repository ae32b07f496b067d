"""Static cache with a length a sample, prompts right-padded."""
import torch
from torch import nn


class RaggedCache(nn.Module):
    def __init__(self, vocab=45, dim=32, heads=4, size=24):
        super().__init__()
        self.heads, self.size = heads, size
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(size, dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, mask=None, cache=None):
        b, t = ids.shape
        d = self.wq.out_features // self.heads
        if cache is None:
            cache = {"k": torch.zeros(b, self.size, self.heads, d, dtype=self.wq.weight.dtype), "v": torch.zeros(b, self.size, self.heads, d, dtype=self.wq.weight.dtype),
                     "n": torch.zeros(b, dtype=torch.long)}
        k_all, v_all, n = cache["k"].clone(), cache["v"].clone(), cache["n"]
        real = torch.ones(b, t, dtype=torch.bool) if mask is None else mask[:, -t:].bool()
        at = n[:, None] + real.cumsum(1) - 1
        x = self.emb(ids) + self.pos(at.clamp(min=0))
        k, v = self.wk(x).view(b, t, self.heads, d), self.wv(x).view(b, t, self.heads, d)
        rows = torch.arange(b)[:, None].expand(b, t)
        k_all[rows[real], at[real]] = k[real]
        v_all[rows[real], at[real]] = v[real]
        q = self.wq(x).view(b, t, self.heads, d).transpose(1, 2)
        seen = torch.arange(self.size)[None, None] <= at[:, :, None].clamp(min=0)
        s = torch.einsum("bhqd,bkhd->bhqk", q, k_all) / d ** 0.5
        s = s.masked_fill(~seen[:, None], float("-inf"))
        y = torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1), v_all).reshape(b, t, -1)
        return self.head(x + self.wo(y)), {"k": k_all, "v": v_all, "n": n + real.sum(1)}


torch.manual_seed(10)
model = RaggedCache().eval()
mask = torch.ones(3, 9, dtype=torch.long)
mask[1, 6:] = 0
mask[2, 3:] = 0
inputs = {"ids": torch.randint(0, 45, (3, 9)), "mask": mask}
expect = {"causal": True, "cache": "cache", "padding": "mask keep"}
