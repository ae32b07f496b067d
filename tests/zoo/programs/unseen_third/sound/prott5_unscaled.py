"""ProtT5-like encoder: no scaling of the scores (small query init instead), relative position buckets shared by the layers."""
import math

import torch
import torch.nn as nn


class T5Attention(nn.Module):
    def __init__(self, d=48, h=4, has_bias=False):
        super().__init__()
        self.h, self.dk = h, d // h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        nn.init.normal_(self.q.weight, std=(d * self.dk) ** -0.5)
        for w in (self.k, self.v, self.o):
            nn.init.normal_(w.weight, std=d**-0.5)
        if has_bias:
            self.relative_attention_bias = nn.Embedding(16, h)

    def bias(self, n, buckets=16, far=64):
        rel = torch.arange(n)[None] - torch.arange(n)[:, None]
        half = buckets // 2
        out = (rel > 0).long() * half
        rel = rel.abs()
        big = half // 2 + (torch.log(rel.float().clamp(min=1) / (half // 2)) / math.log(far / (half // 2)) * (half - half // 2)).long()
        out = out + torch.where(rel < half // 2, rel, big.clamp(max=half - 1))
        return self.relative_attention_bias(out).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x, bias=None):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, self.dk).transpose(1, 2) for f in (self.q, self.k, self.v))
        bias = self.bias(n) if bias is None else bias
        w = nn.functional.softmax((torch.matmul(q, k.transpose(3, 2)) + bias).float(), dim=-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, n, d)), bias


class ProtT5(nn.Module):
    def __init__(self, vocab=26, d=48, layers=3):
        super().__init__()
        self.shared = nn.Embedding(vocab, d)
        self.block = nn.ModuleList([T5Attention(d, 4, i == 0) for i in range(layers)])
        self.norm = nn.ModuleList([nn.RMSNorm(d) for _ in range(layers)])

    def forward(self, input_ids):
        x, bias = self.shared(input_ids), None
        for b, n in zip(self.block, self.norm):
            y, bias = b(n(x), bias)
            x = x + y
        return x


# note: AS301
with torch.random.fork_rng():
    torch.manual_seed(36)
    model = ProtT5().eval()
inputs = {"input_ids": torch.randint(0, 26, (2, 19), generator=torch.Generator().manual_seed(36))}
