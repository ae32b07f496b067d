"""Decoder attention for a course project; masks come after regularisation."""

import torch
import torch.nn as nn


class Head(nn.Module):
    """one head of self-attention"""

    def __init__(self, n_embd, head_size, block_size, dropout):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k, q = self.key(x), self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = self.dropout(torch.softmax(wei, dim=-1))
        return wei @ self.value(x)


class MultiHead(nn.Module):
    def __init__(self, n_embd=36, heads=3, block_size=30, dropout=0.2):
        super().__init__()
        size = n_embd // heads
        self.heads = nn.ModuleList(Head(n_embd, size, block_size, dropout) for _ in range(heads))
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


with torch.random.fork_rng():
    torch.manual_seed(87)
    model = MultiHead()

inputs = torch.randn(2, 13, 36, generator=torch.Generator().manual_seed(87))
expect = {"causal": True}
