"""Decoder whose heads may attend to nothing: a learned logit is one more column of the softmax."""

import math

import torch
from torch import nn


def quiet_attention(q, k, v, sink, hidden):
    logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    logits = logits.masked_fill(hidden, float("-inf"))
    b, h, n, _ = logits.shape
    column = sink.view(1, h, 1, 1).repeat(b, 1, n, 1)
    logits = torch.cat([column, logits], dim=3)
    shares = torch.softmax(logits[..., 1:], dim=-1)  # fault: AS903|AS208
    return torch.matmul(shares, v)


class Decoder(nn.Module):
    def __init__(self, vocab=45, width=30, heads=3):
        super().__init__()
        self.heads = heads
        self.embed, self.place = nn.Embedding(vocab, width), nn.Embedding(32, width)
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.sink = nn.Parameter(torch.randn(heads))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        b, n = ids.shape
        x = self.embed(ids) + self.place.weight[:n]
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        y = quiet_attention(q, k, v, self.sink, later)
        return self.head(x + self.out(y.transpose(1, 2).reshape(b, n, -1)))


torch.manual_seed(42)
model = Decoder().eval()
inputs = (torch.randint(0, 45, (3, 10), generator=torch.Generator().manual_seed(42)),)
expect = {"causal": True}
