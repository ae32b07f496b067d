"""Aligner: softmax over the targets for a plot of which word drew most."""

import torch
from torch import nn


class Align(nn.Module):
    def __init__(self, d=20):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, words, frames):
        scores = torch.einsum("btd,bsd->bts", self.q(words), self.k(frames)) / 20**0.5
        context = torch.einsum("bts,bsd->btd", torch.softmax(scores, 2), self.v(frames))
        return {"context": words + context, "alignment": torch.softmax(scores, 1)}  # fault: AS803


torch.manual_seed(0)
model = Align().eval()
inputs = {"words": torch.randn(2, 6, 20), "frames": torch.randn(2, 15, 20)}
# note: AS501
