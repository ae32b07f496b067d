"""Alignment for text to speech with a diagonal prior, returns the alignment."""

import torch
from torch import nn


def diagonal_prior(rows, columns, width=0.35):
    i = torch.linspace(0, 1, rows)[:, None]
    j = torch.linspace(0, 1, columns)[None, :]
    return torch.exp(-((i - j) ** 2) / (2 * width**2))


class AlignmentAttention(nn.Module):
    def __init__(self, n_mel, n_text, dim):
        super().__init__()
        self.query_proj = nn.Linear(n_mel, dim)
        self.key_proj = nn.Linear(n_text, dim)
        self.value_proj = nn.Linear(n_text, dim)
        self.dim = dim

    def forward(self, mels, text):
        queries = self.query_proj(mels)
        keys = self.key_proj(text)
        values = self.value_proj(text)
        logits = torch.bmm(queries, keys.transpose(1, 2)) / self.dim**0.5
        prior = diagonal_prior(mels.shape[1], text.shape[1])
        attn = torch.softmax(logits, dim=2)
        posterior = torch.softmax(logits + torch.log(prior + 1e-8), dim=2)
        return torch.bmm(posterior, values), attn  # fault: AS803


def model():
    with torch.random.fork_rng():
        torch.manual_seed(260)
        return AlignmentAttention(n_mel=10, n_text=14, dim=22)


def inputs():
    g = torch.Generator().manual_seed(261)
    return {"mels": torch.randn(3, 25, 10, generator=g), "text": torch.randn(3, 9, 14, generator=g)}
