"""Upper layer reuses keys and values of the lower one (YOCO / CLA style)."""

import torch
import torch.nn.functional as F
from torch import nn


class SharedKV(nn.Module):
    def __init__(self, vocab=58, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(32, d)
        self.q = nn.ModuleList([nn.Linear(d, d), nn.Linear(d, d)])
        self.kv = nn.Linear(d, 2 * d)
        self.o = nn.ModuleList([nn.Linear(d, d), nn.Linear(d, d)])
        self.ln = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])

    def cut(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.size(1)]
        k, v = (self.cut(t) for t in self.kv(self.ln[0](x)).chunk(2, -1))
        for ln, q, o in zip(self.ln, self.q, self.o):
            y = F.scaled_dot_product_attention(self.cut(q(ln(x))), k, v, is_causal=True)
            x = x + o(y.transpose(1, 2).flatten(2))
        return x


torch.manual_seed(12)
model = SharedKV().eval()
inputs = torch.randint(0, 58, (4, 14))
expect = {"causal": True}
