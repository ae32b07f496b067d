"""Annotated-transformer Batch object and decoder for reversed digits."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def subsequent_mask(size):
    attn_shape = (1, size, size)
    return torch.triu(torch.ones(attn_shape), diagonal=1).type(torch.uint8) == 0


def make_std_mask(tgt, pad):
    tgt_mask = (tgt != pad).unsqueeze(-2)
    tgt_mask = tgt_mask | subsequent_mask(tgt.size(-1)).type_as(tgt_mask.data)  # fault: AS201
    return tgt_mask


class Attn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.lin = nn.ModuleList([nn.Linear(d, d) for _ in range(4)])

    def forward(self, q, k, v, mask):
        B, d = q.size(0), q.size(-1)
        q, k, v = [l(t).view(B, -1, self.h, d // self.h).transpose(1, 2) for l, t in zip(self.lin, (q, k, v))]
        s = torch.matmul(q, k.transpose(-2, -1)) / (d // self.h) ** 0.5
        s = s.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        p = F.softmax(s, dim=-1)  # fault: AS201
        return self.lin[-1](torch.matmul(p, v).transpose(1, 2).contiguous().view(B, -1, d))


class EncDec(nn.Module):
    def __init__(self, vocab=13, d=32):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(20, d)
        self.enc, self.dec, self.src = Attn(d), Attn(d), Attn(d)
        self.gen = nn.Linear(d, vocab)

    def embed(self, t):
        return self.e(t) + self.p(torch.arange(t.size(1)))

    def forward(self, src, tgt):
        sm, tm = (src != 0).unsqueeze(-2), make_std_mask(tgt, 0)
        m = self.embed(src)
        m = m + self.enc(m, m, m, sm)
        x = self.embed(tgt)
        x = x + self.dec(x, x, x, tm)
        x = x + self.src(x, m, m, sm)
        return F.log_softmax(self.gen(x), dim=-1)


torch.manual_seed(0)
model = EncDec().eval()
_g = torch.Generator().manual_seed(0)
inputs = (torch.randint(1, 13, (2, 9), generator=_g), torch.randint(1, 13, (2, 7), generator=_g))
expect = {"causal": True}
