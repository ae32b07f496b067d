"""Prefix language model for summaries: the article is read both ways."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PrefixLM(nn.Module):
    def __init__(self, vocab=68, d=36, h=4, n=2):
        super().__init__()
        self.h = h
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(n))
        self.out = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.lm = nn.Linear(d, vocab)

    def forward(self, ids, prefix_len):
        b, t = ids.shape
        i = torch.arange(t)
        mask = (i[None, :] <= i[:, None]) | (i[None, :] < prefix_len)
        x = self.tok(ids) + self.pos(i)
        for ln, qkv, o in zip(self.ln, self.qkv, self.out):
            q, k, v = qkv(ln(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            x = x + o(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return self.lm(x)


torch.manual_seed(0)
model = PrefixLM().eval()
inputs = {"ids": torch.randint(0, 68, (2, 13), generator=torch.Generator().manual_seed(0)), "prefix_len": 5}
expect = {"causal": True, "prefix": 5}
