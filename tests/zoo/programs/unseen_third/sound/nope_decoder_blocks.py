"""Decoder without position embedding (NoPE), causal mask is enough."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class NoPE(nn.Module):
    def __init__(self, vocab=59, d=32, h=4, n=2):
        super().__init__()
        self.h = h
        self.tok = nn.Embedding(vocab, d)
        self.l = nn.ModuleList(nn.ModuleDict({"n1": nn.LayerNorm(d), "in": nn.Linear(d, 3 * d), "out": nn.Linear(d, d), "n2": nn.LayerNorm(d), "ff": nn.Linear(d, d)}) for _ in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.tok(ids)
        b, t, d = x.shape
        for l in self.l:
            q, k, v = l["in"](l["n1"](x)).view(b, t, self.h, 3, -1).permute(3, 0, 2, 1, 4)
            x = x + l["out"](F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
            x = x + F.gelu(l["ff"](l["n2"](x)))
        return self.head(x)


torch.manual_seed(0)
model = NoPE().eval()
expect = {"causal": True}
