"""Encoder with padded batches."""
import math
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.h, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.h)
        bias = (1 - mask[:, None, None, :]).float() * -1e9
        w = scores.softmax(-1) + bias  # fault: AS204
        return self.o((w @ v).transpose(1, 2).reshape(b, t, c))

class Encoder(nn.Module):
    def __init__(self, vocab=50, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(32, d)
        self.layers = nn.ModuleList(Attention(d) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))

    def forward(self, input_ids, attention_mask):
        x = self.emb(input_ids) + self.pos(torch.arange(input_ids.shape[1]))
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x), attention_mask)
        return x

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Encoder().eval()
B, T = 3, 9
ids = torch.randint(1, 50, (B, T), generator=torch.Generator().manual_seed(1))
keep = torch.ones(B, T, dtype=torch.long)
for i, n in enumerate([9, 6, 4]):
    keep[i, n:] = 0
inputs = {"input_ids": ids * keep, "attention_mask": keep}
