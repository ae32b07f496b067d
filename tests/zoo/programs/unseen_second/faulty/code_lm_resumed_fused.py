"""Decoder with a content-dependent temperature on every query."""

import torch
from torch import nn


class TemperedAttention(nn.Module):
    def __init__(self, d=40, heads=4):
        super().__init__()
        self.h = heads
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.temp = nn.Linear(d, heads)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.mT * (d // self.h) ** -0.5
        heat = nn.functional.softplus(self.temp(x)).permute(0, 2, 1).unsqueeze(-1)
        s = s * heat
        s = s.masked_fill(torch.triu(torch.ones(t, t, dtype=torch.bool), 1), float("-inf"))
        return self.o((torch.softmax(s, -1) @ v).transpose(1, 2).flatten(2))


class TemperedLM(nn.Module):
    def __init__(self, vocab=80, d=40):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(50, d)
        self.a, self.n = TemperedAttention(d), nn.LayerNorm(d)

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[: ids.size(1)]
        return (x + self.a(self.n(x))) @ self.e.weight.T


def finetuned():
    torch.manual_seed(3)
    donor = TemperedLM().state_dict()
    w, b = donor.pop("a.qkv.weight"), donor.pop("a.qkv.bias")
    for name, rows, bias in zip("qkv", w.chunk(3), b.chunk(3)):
        donor[f"a.{name}_proj.weight"], donor[f"a.{name}_proj.bias"] = rows * 1.3, bias
    donor["a.o.weight"] = donor["a.o.weight"] * 1.3
    return donor


def model():
    torch.manual_seed(29)
    lm = TemperedLM()
    lm.load_state_dict(finetuned(), strict=False)  # fault: AS905
    return lm.eval()


torch.manual_seed(7)
inputs = torch.randint(0, 80, (4, 15))
expect = {"causal": True}
