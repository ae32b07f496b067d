"""Text tagger whose position module is a small recurrence over the embedded words."""

import torch
from torch import nn


class RecurrentPositions(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.pos_rnn = nn.GRU(width, width, batch_first=True)

    def forward(self, x):
        return x + self.pos_rnn(x)[0]


class Tagger(nn.Module):
    def __init__(self, words=50, width=32, tags=6):
        super().__init__()
        self.words, self.pos = nn.Embedding(words, width), RecurrentPositions(width)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 48, batch_first=True), 2)
        self.tags = nn.Linear(width, tags)

    def forward(self, ids):
        return self.tags(self.layers(self.pos(self.words(ids))))


with torch.random.fork_rng():
    torch.manual_seed(42)
    model = Tagger().eval()
inputs = torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(42))
