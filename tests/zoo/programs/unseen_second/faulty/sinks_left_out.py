"""Decoder layer with one learned sink logit per head (mass may go nowhere)."""

import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, dim=40, heads=5, kv=1):
        super().__init__()
        self.h, self.kv, self.d = heads, kv, dim // heads
        self.q = nn.Linear(dim, heads * self.d)
        self.k, self.v = nn.Linear(dim, kv * self.d), nn.Linear(dim, kv * self.d)
        self.o = nn.Linear(heads * self.d, dim)
        self.sinks = nn.Parameter(torch.randn(heads))  # fault: AS903|AS306|AS208
        self.pos = nn.Embedding(40, dim)

    def forward(self, x):
        b, t, _ = x.shape
        x = x + self.pos.weight[:t]
        q = self.q(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.k(x).view(b, t, self.kv, self.d).transpose(1, 2).expand(-1, self.h, -1, -1)
        v = self.v(x).view(b, t, self.kv, self.d).transpose(1, 2).expand(-1, self.h, -1, -1)
        logits = torch.matmul(q, k.transpose(2, 3)) / self.d**0.5
        logits = logits.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        logits = logits - logits.amax(dim=-1, keepdim=True)
        probs = logits.softmax(dim=-1)  # fault: AS903|AS306|AS208
        return self.o((probs @ v).transpose(1, 2).reshape(b, t, -1))


torch.manual_seed(4)
model = SinkAttention().eval()
inputs = torch.randn(3, 12, 40)
expect = {"causal": True}
# also: AS902
