"""Pointer reader: weights are gated by what was copied before, then brought back to sum to one."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, vocab=50, width=24):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocab, width, padding_idx=0), nn.Embedding(30, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, vocab)

    def forward(self, tokens):
        real = (tokens != 0).float()
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        weights = scores.softmax(-1) * real[:, :, None] * real[:, None, :]
        weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-9)
        return self.out(x + weights @ self.value(x))


torch.manual_seed(31)
model = Reader().eval()
_tokens = torch.randint(1, 50, (3, 10), generator=torch.Generator().manual_seed(31))
_tokens[0, 7:] = 0
_tokens[2, 4:] = 0
inputs = {"tokens": _tokens}
expect = {"padding": "tokens pad=0"}
