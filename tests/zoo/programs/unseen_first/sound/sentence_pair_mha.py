"""Sentence-pair scorer: premise attends to hypothesis through nn.MultiheadAttention."""
import torch
from torch import nn


class PairScorer(nn.Module):
    def __init__(self, vocab=83, dim=28, heads=4):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.positions = nn.Embedding(20, dim)
        self.cross = nn.MultiheadAttention(dim, heads, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 2)

    def forward(self, premise, hypothesis):
        p = self.embedding(premise) + self.positions.weight[: premise.size(1)]
        h = self.embedding(hypothesis) + self.positions.weight[: hypothesis.size(1)]
        hypothesis_is_pad = hypothesis == 0
        mixed, _ = self.cross(p, h, h, key_padding_mask=hypothesis_is_pad, need_weights=False)
        x = self.norm(p + mixed)
        real = (premise != 0).unsqueeze(-1)
        return self.score((x * real).sum(1) / real.sum(1))


def make_inputs():
    g = torch.Generator().manual_seed(4)
    premise = torch.randint(1, 83, (5, 10), generator=g)
    hypothesis = torch.randint(1, 83, (5, 7), generator=g)
    premise[2, 6:] = 0
    hypothesis[1, 5:] = 0
    hypothesis[4, 3:] = 0
    return premise, hypothesis


torch.manual_seed(9)
model = PairScorer().eval()
inputs = make_inputs
expect = {"padding": "hypothesis pad=0"}
