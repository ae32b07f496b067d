"""Symbolic music continuation with ALiBi, four tracks summed per step."""

import torch
import torch.nn as nn


def alibi_slopes(n_heads):
    start = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([start ** (i + 1) for i in range(n_heads)])


class TrackAttention(nn.Module):
    def __init__(self, size, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.mha_in = nn.Linear(size, size * 3)
        self.mha_out = nn.Linear(size, size)
        self.register_buffer("slopes", alibi_slopes(n_heads).view(1, n_heads, 1, 1))

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.mha_in(x).view(n, t, self.n_heads, 3, -1).permute(3, 0, 2, 1, 4)
        step = torch.arange(t, device=x.device)
        distance = step[:, None] - step[None, :]  # fault: AS505
        logits = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        logits = logits + self.slopes * distance  # fault: AS505
        logits = logits.masked_fill(distance < 0, float("-inf"))
        y = logits.softmax(-1) @ v
        return self.mha_out(y.transpose(1, 2).flatten(-2))


class TrackModel(nn.Module):
    def __init__(self, pitches=88, tracks=4, size=48, n_heads=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(pitches, size) for _ in range(tracks))
        self.layers = nn.ModuleList(TrackAttention(size, n_heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))
        self.heads = nn.Linear(size, pitches * tracks)

    def forward(self, rolls):
        h = sum(table(rolls[..., i]) for i, table in enumerate(self.tables))
        for norm, layer in zip(self.norms, self.layers):
            h = h + layer(norm(h))
        return self.heads(h)


torch.manual_seed(88)
model = TrackModel().eval()
inputs = torch.randint(0, 88, (3, 19, 4))
expect = {"causal": True}
