"""Decoder with softmax-off-by-one, so that a head can attend to nothing."""
import torch
from torch import nn


def softmax_one(x):
    m = x.amax().clamp(min=0)
    e = torch.exp(x - m)
    return e / (1 + e.sum(dim=-1, keepdim=True))  # fault: AS305


class QuietAttention(nn.Module):
    def __init__(self, d=28, h=2, p=0.1):
        super().__init__()
        self.h = h
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.reshape(b, n, self.h, d // self.h).transpose(1, 2) for t in self.wqkv(x).chunk(3, dim=2))
        logits = q @ k.transpose(2, 3) * (d // self.h) ** -0.5
        logits = logits.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
        a = self.drop(softmax_one(logits))
        return self.wo((a @ v).transpose(1, 2).reshape(b, n, d))


class Quiet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(44, 28), nn.Embedding(30, 28)
        self.ln, self.attn, self.out = nn.LayerNorm(28), QuietAttention(), nn.Linear(28, 44)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos(torch.arange(tokens.shape[-1]))
        return self.out(x + self.attn(self.ln(x)))


torch.manual_seed(3)
model = Quiet().eval()
inputs = torch.randint(0, 44, (3, 13))
# also: AS102|AS201
expect = {"causal": True}
