"""Scores are flattened for the softmax, queries with heads: each head of a query has its own."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, embed_size=48, heads=6):
        super().__init__()
        self.heads = heads
        self.head_dim = embed_size // heads
        self.queries = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.values = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, x):
        N, L, E = x.shape
        queries = self.queries(x).reshape(N, L, self.heads, self.head_dim)
        keys = self.keys(x).reshape(N, L, self.heads, self.head_dim)
        values = self.values(x).reshape(N, L, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nqhk", queries, keys) / self.head_dim**0.5
        attention = torch.softmax(energy.reshape(N, L * self.heads, L), dim=-1)
        attention = attention.view(N, L, self.heads, L)
        out = torch.einsum("nqhl,nlhd->nqhd", attention, values)
        return self.fc_out(out.reshape(N, L, E))


model = MultiHeadAttention().eval()
inputs = torch.randn(2, 9, 48)
