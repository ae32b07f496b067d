"""Melody model; a base class keeps the table of what is visible."""

import torch
from torch import nn


def table_of_visible(size):
    """Return zeros where a key may be seen, and minus infinity where it may not."""
    steps = torch.arange(size)
    hidden = steps[None, :] > steps[:, None]
    return torch.zeros(size, size).masked_fill(hidden, float("-inf"))


class Masked(nn.Module):
    def __init__(self, longest):
        super().__init__()
        self.register_buffer("table", table_of_visible(longest), persistent=False)

    def visible(self, length):
        return self.table[:length, :length]


class Attention(Masked):
    def __init__(self, width, heads, longest):
        super().__init__(longest)
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.o = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (p(x).view(b, n, self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) * (d // self.heads) ** -0.5
        weights = torch.softmax(scores + self.visible(n), dim=-1)
        return self.o((weights @ v).transpose(1, 2).reshape(b, n, d))


class Melody(nn.Module):
    def __init__(self, notes=60, width=24):
        super().__init__()
        self.note, self.time = nn.Embedding(notes, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(Attention(width, 3, 64) for _ in range(2))
        self.head = nn.Linear(width, notes)

    def forward(self, notes):
        x = self.note(notes) + self.time.weight[: notes.shape[1]]
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def model():
    torch.manual_seed(65)
    return Melody().eval()


inputs = (torch.randint(0, 60, (2, 13), generator=torch.Generator().manual_seed(65)),)
expect = {"causal": True}
