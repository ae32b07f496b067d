"""Beam decoding step: cross keys are projected once per source and shared by its beams."""

import torch
from torch import nn
import torch.nn.functional as F


class BeamCross(nn.Module):
    def __init__(self, d=28, heads=4, beams=3, vocab=40):
        super().__init__()
        self.h, self.beams = heads, beams
        self.emb, self.pos, self.src_pos = nn.Embedding(vocab, d), nn.Embedding(20, d), nn.Embedding(20, d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, source, hypotheses):
        memory = source + self.src_pos.weight[: source.size(1)]
        n, t = hypotheses.shape
        k, v = (f(memory).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.k, self.v))
        k, v = k.repeat_interleave(self.beams, 0), v.repeat_interleave(self.beams, 0)
        x = self.emb(hypotheses) + self.pos.weight[:t]
        q = self.q(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x @ self.emb.weight.T


torch.manual_seed(33)
model = BeamCross().eval()
inputs = {"source": torch.randn(2, 9, 28), "hypotheses": torch.randint(0, 40, (6, 5))}
