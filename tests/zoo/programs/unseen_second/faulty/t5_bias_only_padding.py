"""T5-like encoder: no scale in the scores, relative buckets shared by all layers."""

import math
import torch
from torch import nn


def bucket(rel, buckets=16, far=40):
    half = buckets // 2
    out = (rel > 0).long() * half
    rel = rel.abs()
    exact = half // 2
    large = exact + (torch.log(rel.float().clamp(min=1) / exact) / math.log(far / exact) * (half - exact)).long()
    return out + torch.where(rel < exact, rel, large.clamp(max=half - 1))


class Attn(nn.Module):
    def __init__(self, d, h, dk):
        super().__init__()
        self.h, self.dk = h, dk
        self.q, self.k, self.v = (nn.Linear(d, h * dk, bias=False) for _ in range(3))
        self.o = nn.Linear(h * dk, d, bias=False)
        nn.init.normal_(self.q.weight, std=(d * dk) ** -0.5)
        nn.init.normal_(self.k.weight, std=d**-0.5)

    def forward(self, x, bias):
        b, n, _ = x.shape
        q, k, v = (f(x).view(b, n, self.h, self.dk).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o((torch.softmax(q @ k.transpose(3, 2) + bias, -1) @ v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, vocab=70, d=32, h=4, dk=12):
        super().__init__()
        self.shared = nn.Embedding(vocab, d)
        self.rel = nn.Embedding(16, h)
        self.attn = nn.ModuleList(Attn(d, h, dk) for _ in range(2))
        self.norm = nn.ModuleList(nn.RMSNorm(d) for _ in range(2))

    def forward(self, input_ids, attention_mask):
        n = input_ids.size(1)
        place = torch.arange(n)
        bias = self.rel(bucket(place[None] - place[:, None])).permute(2, 0, 1)[None]  # fault: AS501|AS903
        bias = (1.0 - attention_mask[:, None, None, :]) * torch.finfo(torch.float32).min  # fault: AS501|AS903
        x = self.shared(input_ids)
        for norm, attn in zip(self.norm, self.attn):
            x = x + attn(norm(x), bias)
        return x


torch.manual_seed(1)
model = Encoder().eval()
mask = (torch.arange(17)[None] < torch.tensor([[17], [9], [12]])).float()
inputs = {"input_ids": torch.randint(0, 70, (3, 17)), "attention_mask": mask}
expect = {"padding": "attention_mask keep", "causal": False}
# also: AS903 AS902 AS501
