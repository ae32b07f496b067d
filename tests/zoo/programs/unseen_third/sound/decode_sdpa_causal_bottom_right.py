"""Little decoder with past key values as list of tuples, SDPA inside."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(c, 3 * c)
        self.o = nn.Linear(c, c)

    def forward(self, x, past=None):
        b, t, c = x.shape
        q, k, v = [y.view(b, t, self.h, c // self.h).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)]
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        mask = torch.ones(t, k.size(2), dtype=torch.bool, device=x.device).tril(k.size(2) - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(b, t, c)), (k, v)


class Decoder(nn.Module):
    def __init__(self, vocab=59, c=36, h=3, layers=2, ctx=40):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, c), nn.Embedding(ctx, c)
        self.ln = nn.ModuleList([nn.LayerNorm(c) for _ in range(layers)])
        self.attn = nn.ModuleList([Attn(c, h) for _ in range(layers)])
        self.head = nn.Linear(c, vocab)

    def forward(self, idx, past=None):
        start = 0 if past is None else past[0][0].size(2)
        x = self.tok(idx) + self.pos(torch.arange(start, start + idx.size(1), device=idx.device))
        presents = []
        for i, (ln, a) in enumerate(zip(self.ln, self.attn)):
            y, p = a(ln(x), None if past is None else past[i])
            presents.append(p)
            x = x + y
        return self.head(x), presents


torch.manual_seed(6)
model = Decoder().eval()
expect = {"causal": True, "cache": "past"}
