"""Retrieval reader: question tokens over passage tokens, masks as the tokenizer returns them."""

import torch
import torch.nn as nn


class CrossReader(nn.Module):
    def __init__(self, hidden_size=42, n_heads=6):
        super().__init__()
        self.n_heads = n_heads
        self.q = nn.Linear(hidden_size, hidden_size)
        self.k = nn.Linear(hidden_size, hidden_size)
        self.v = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.layer_norm = nn.LayerNorm(hidden_size)

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).movedim(2, 1)

    def forward(self, question, passage, passage_mask):
        q, k, v = self.split(self.q(question)), self.split(self.k(passage)), self.split(self.v(passage))
        scores = torch.matmul(q, k.transpose(2, 3)) * q.size(-1) ** -0.5
        drop = (~passage_mask).bool()[:, None, None, :]  # fault: AS205|AS203
        scores = scores.masked_fill(drop, -1e9)  # fault: AS205|AS203
        weights = scores.softmax(dim=-1)
        out = torch.matmul(weights, v).movedim(1, 2).flatten(2)
        return self.layer_norm(question + self.dense(out))


# also: AS202 AS208
with torch.random.fork_rng():
    torch.manual_seed(28)
    model = CrossReader().eval()


def inputs():
    g = torch.Generator().manual_seed(28)
    mask = torch.ones(3, 13, dtype=torch.long)
    mask[0, 9:] = 0
    mask[2, 5:] = 0
    return {
        "question": torch.randn(3, 6, 42, generator=g),
        "passage": torch.randn(3, 13, 42, generator=g),
        "passage_mask": mask,
    }


expect = {"padding": "passage_mask keep"}
