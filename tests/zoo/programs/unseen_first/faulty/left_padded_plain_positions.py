"""Batched left-padded decoder: position ids from the mask, one on padding as in common generation code."""
import torch
import torch.nn.functional as F
from torch import nn


class GenAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, d)

    def forward(self, x, allowed):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.transpose(-1, -2) / (d // self.h) ** 0.5
        s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
        w = F.softmax(s, dim=-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, n, d))


class Generator(nn.Module):
    def __init__(self, vocab=91, d=36, h=4):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(48, d)
        self.layers = nn.ModuleList(GenAttention(d, h) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.head = nn.Linear(d, vocab)

    def forward(self, input_ids, attention_mask):
        n = input_ids.shape[1]
        position_ids = torch.arange(n).expand_as(input_ids)  # fault: AS504
        allowed = attention_mask.bool()[:, None, None, :] & torch.ones(n, n).tril().bool()
        x = self.tok(input_ids) + self.pos(position_ids)  # fault: AS504
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), allowed)
        return self.head(x)


torch.manual_seed(81)
model = Generator().eval()
ids = torch.randint(1, 91, (3, 12))
am = (torch.arange(12) >= torch.tensor([[5], [0], [2]])).long()
inputs = {"input_ids": ids * am, "attention_mask": am}
expect = {"causal": True, "padding": "attention_mask keep"}
