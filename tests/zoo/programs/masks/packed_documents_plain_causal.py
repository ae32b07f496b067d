"""Pretraining model on packed sequences: positions restart with each document."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def restart_positions(doc_ids):
    n = doc_ids.size(1)
    index = torch.arange(n).expand_as(doc_ids)
    starts = torch.ones_like(doc_ids, dtype=torch.bool)
    starts[:, 1:] = doc_ids[:, 1:] != doc_ids[:, :-1]
    return index - torch.where(starts, index, 0).cummax(dim=1).values


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln = nn.LayerNorm(dim)
        self.w = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        q, k, v = self.w(self.ln(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS209
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.ff(x)


class PackedLM(nn.Module):
    def __init__(self, vocab=83, dim=32, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(64, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens, doc_ids):
        x = self.embed(tokens) + self.pos(restart_positions(doc_ids))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(48)
    model = PackedLM().eval()

inputs = {
    "tokens": torch.randint(0, 83, (2, 15), generator=torch.Generator().manual_seed(48)),
    "doc_ids": torch.tensor([[0] * 6 + [1] * 9, [0] * 4 + [1] * 5 + [2] * 6]),
}
expect = {"causal": True, "documents": "doc_ids"}
