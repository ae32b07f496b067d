"""Sentiment of reviews: the padding goes in as the encoder's first mask."""

import torch
from torch import nn


class Reviews(nn.Module):
    def __init__(self, vocabulary=200, width=32):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=0)
        self.places = nn.Embedding(40, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.score = nn.Linear(width, 1)

    def forward(self, tokens):
        empty = tokens == 0
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        x = self.encoder(x, empty)  # fault: AS211
        return self.score(x.masked_fill(empty[..., None], 0.0).sum(1))


torch.manual_seed(0)
model = Reviews().eval()
_tokens = torch.randint(1, 200, (4, 9))
_tokens[1, 6:] = 0
_tokens[3, 4:] = 0
inputs = _tokens
