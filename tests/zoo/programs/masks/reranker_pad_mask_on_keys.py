"""Reranker: passages of several lengths, one mask of padding."""

import torch
from torch import nn


def blocked(scores, pad_mask):
    return scores.masked_fill(pad_mask.unsqueeze(1).unsqueeze(1), -1e9)


class PassageAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, words, pad_mask):
        q, k, v = (
            part(words).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = blocked(scores, pad_mask).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Reranker(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(60, dim)
        self.places = nn.Embedding(16, dim)
        self.layers = nn.ModuleList(PassageAttention(dim) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.score = nn.Linear(dim, 1)

    def forward(self, passages, pad_mask):
        x = self.embed(passages) + self.places(torch.arange(passages.shape[1]))
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), pad_mask)
        return self.score(x[:, 0]).squeeze(-1)


torch.manual_seed(3)
model = Reranker().eval()
passages = torch.randint(1, 60, (4, 10))
lengths = torch.tensor([10, 6, 8, 3])
inputs = {"passages": passages, "pad_mask": torch.arange(10)[None] >= lengths[:, None]}
