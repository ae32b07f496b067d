"""Half-precision retrieval reader: scores in float16, sums kept in float32."""
import torch
from torch import nn


class RetrievalReader(nn.Module):
    def __init__(self, d=32, h=2):
        super().__init__()
        self.h = h
        self.q, self.kv = nn.Linear(d, d), nn.Linear(d, 2 * d)

    def forward(self, query, memory):
        q = self.q(query).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.kv(memory).chunk(2, -1))
        s = q @ k.mT * q.shape[-1] ** -0.5
        e = torch.exp(s)
        total = torch.zeros_like(e[..., :1])
        for j in range(e.shape[-1]):
            total = total + e[..., j : j + 1]  # fault: AS304
        return ((e / total) @ v).transpose(1, 2).flatten(2)  # fault: AS304


torch.manual_seed(22)
model = RetrievalReader().half().eval()
inputs = {"query": torch.randn(2, 5, 32).half(), "memory": torch.randn(2, 5000, 32).half()}
