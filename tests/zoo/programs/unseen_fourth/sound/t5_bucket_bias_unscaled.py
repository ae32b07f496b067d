"""T5 flavoured encoder: relative buckets and no scale."""
import torch
import torch.nn as nn


class T5Attn(nn.Module):
    def __init__(self, d=32, h=4, buckets=8, has_bias=False):
        super().__init__()
        self.h, self.dk = h, d // h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        nn.init.normal_(self.q.weight, std=(d * self.dk) ** -0.5)
        nn.init.normal_(self.k.weight, std=d ** -0.5)
        self.rel = nn.Embedding(2 * buckets + 1, h) if has_bias else None
        self.buckets = buckets

    def bias(self, n):
        r = (torch.arange(n)[None] - torch.arange(n)[:, None]).clamp(-self.buckets, self.buckets) + self.buckets
        return self.rel(r).permute(2, 0, 1)[None]

    def forward(self, x, mask, bias=None):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, self.dk).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(3, 2)
        if bias is None:
            bias = self.bias(n)
        scores = scores + bias + (1.0 - mask[:, None, None].float()) * torch.finfo(scores.dtype).min
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)), bias


class T5Enc(nn.Module):
    def __init__(self, vocab=83, d=32):
        super().__init__()
        self.shared = nn.Embedding(vocab, d)
        self.block = nn.ModuleList([T5Attn(d, has_bias=i == 0) for i in range(3)])
        self.ln = nn.ModuleList([nn.RMSNorm(d) for _ in range(3)])

    def forward(self, input_ids, attention_mask):
        x, bias = self.shared(input_ids), None
        for n, b in zip(self.ln, self.block):
            y, bias = b(n(x), attention_mask, bias)
            x = x + y
        return x


def model():
    torch.manual_seed(5)
    return T5Enc().eval()


_m = torch.tensor([[1] * 9, [1] * 6 + [0] * 3])
inputs = {"input_ids": torch.randint(1, 83, (2, 9), generator=torch.Generator().manual_seed(5)) * _m, "attention_mask": _m}
expect = {"padding": "attention_mask keep"}
# note: AS301
