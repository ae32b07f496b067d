"""Homework 5: masked self-attention."""
import torch
import torch.nn as nn


class MaskedSelfAttention(nn.Module):
    def __init__(self, embed_size=24, heads=2):
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values = nn.Linear(embed_size, embed_size, bias=False)
        self.keys = nn.Linear(embed_size, embed_size, bias=False)
        self.queries = nn.Linear(embed_size, embed_size, bias=False)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        N = query.shape[0]
        value_len, key_len, query_len = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values).reshape(N, value_len, self.heads, self.head_dim)
        keys = self.keys(keys).reshape(N, key_len, self.heads, self.head_dim)
        queries = self.queries(query).reshape(N, query_len, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [queries, keys])
        energy = energy / (self.head_dim ** (1 / 2))
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("1e-20"))  # fault: AS207
        attention = torch.softmax(energy, dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(N, query_len, self.embed_size)
        return self.fc_out(out)


class Student(nn.Module):
    def __init__(self, vocab=40, size=24):
        super().__init__()
        self.we, self.pe = nn.Embedding(vocab, size), nn.Embedding(30, size)
        self.attention = MaskedSelfAttention(size)
        self.norm, self.out = nn.LayerNorm(size), nn.Linear(size, vocab)

    def forward(self, x):
        N, L = x.shape
        mask = torch.tril(torch.ones((L, L))).expand(N, 1, L, L)
        h = self.we(x) + self.pe(torch.arange(L).expand(N, L))
        return self.out(self.norm(self.attention(h, h, h, mask) + h))


torch.manual_seed(0)
model = Student().eval()
# also: AS201
