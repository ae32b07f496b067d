"""Multi query attention with a sliding window, decode cache as tuple."""
import torch
import torch.nn as nn
import torch.nn.functional as F

W = 6


class MQA(nn.Module):
    def __init__(self, d=40, h=5):
        super().__init__()
        self.h, self.hd = h, d // h
        self.q, self.kv, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * self.hd, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, past=None):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.h, self.hd).transpose(1, 2)
        k, v = self.kv(x).unsqueeze(1).chunk(2, -1)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        s = k.size(2)
        gap = torch.arange(s - t, s)[:, None] - torch.arange(s)
        y = F.scaled_dot_product_attention(q, k.expand(-1, self.h, -1, -1), v.expand(-1, self.h, -1, -1), attn_mask=(gap >= 0) & (gap < W))
        return self.o(y.transpose(1, 2).reshape(b, t, d)), (k, v)


class WindowLM(nn.Module):
    def __init__(self, vocab=61, d=40):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(60, d)
        self.att, self.ln, self.out = MQA(d), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids, past=None):
        n = 0 if past is None else past[0].size(2)
        x = self.e(ids) + self.p(torch.arange(n, n + ids.size(1)))
        y, past = self.att(self.ln(x), past)
        return self.out(x + y), past


def model():
    torch.manual_seed(3)
    return WindowLM().eval()


inputs = torch.randint(0, 61, (2, 15), generator=torch.Generator().manual_seed(3))
expect = {"causal": True, "window": W, "cache": "past"}
