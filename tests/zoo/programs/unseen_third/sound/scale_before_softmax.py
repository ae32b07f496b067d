"""Conditional text model, attention written for readability."""
import torch
import torch.nn as nn


class ReadableAttention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 2):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.to_queries, self.to_keys, self.to_values = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.combine = nn.Linear(width, width)

    def forward(self, sequence):
        batch, length, width = sequence.shape
        per_head = []
        queries = self.to_queries(sequence).split(self.size, dim=-1)
        keys = self.to_keys(sequence).split(self.size, dim=-1)
        values = self.to_values(sequence).split(self.size, dim=-1)
        for q, k, v in zip(queries, keys, values):
            similarity = torch.bmm(q, k.transpose(1, 2))
            weights = torch.softmax(similarity / self.size**0.5, dim=-1)
            per_head.append(torch.bmm(weights, v))
        return self.combine(torch.cat(per_head, dim=-1))


torch.manual_seed(0)
model = ReadableAttention().eval()
inputs = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(2))
