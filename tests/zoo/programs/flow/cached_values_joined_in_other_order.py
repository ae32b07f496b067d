"""Story generator: learned positions, two layers, cached decoding."""

from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Settings:
    vocab: int = 58
    positions: int = 40
    width: int = 36
    heads: int = 3
    layers: int = 2


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.heads = s.heads
        self.query = nn.Linear(s.width, s.width)
        self.key = nn.Linear(s.width, s.width)
        self.value = nn.Linear(s.width, s.width)
        self.project = nn.Linear(s.width, s.width)

    def cut(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, x, old_keys, old_values):
        q, k, v = self.cut(self.query(x)), self.cut(self.key(x)), self.cut(self.value(x))
        if old_keys is not None:
            k = torch.cat([old_keys, k], dim=2)
            v = torch.cat([v, old_values], dim=2)  # fault: AS601
        n, m = q.shape[2], k.shape[2]
        scores = torch.einsum("bhnd,bhmd->bhnm", q, k) / q.shape[-1] ** 0.5
        hidden = torch.arange(m)[None, :] > torch.arange(m - n, m)[:, None]
        weights = scores.masked_fill(hidden, -1e30).softmax(dim=-1)
        context = torch.einsum("bhnm,bhmd->bhnd", weights, v)
        return self.project(context.permute(0, 2, 1, 3).flatten(2)), k, v


class StoryModel(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.words = nn.Embedding(s.vocab, s.width)
        self.places = nn.Embedding(s.positions, s.width)
        self.norms = nn.ModuleList(nn.LayerNorm(s.width) for _ in range(s.layers))
        self.attentions = nn.ModuleList(Attention(s) for _ in range(s.layers))
        self.head = nn.Linear(s.width, s.vocab)

    def forward(self, words, state=None):
        start = 0 if state is None else state[0][0].shape[2]
        x = self.words(words) + self.places(torch.arange(start, start + words.shape[1]))
        state = state or [(None, None)] * len(self.attentions)
        after = []
        for norm, attention, (keys, values) in zip(self.norms, self.attentions, state):
            y, keys, values = attention(norm(x), keys, values)
            x = x + y
            after.append((keys, values))
        return self.head(x), after


with torch.random.fork_rng():
    torch.manual_seed(78)
    model = StoryModel(Settings()).eval()

inputs = {"words": torch.randint(0, 58, (2, 10), generator=torch.Generator().manual_seed(78))}
expect = {"causal": True, "cache": "state"}
