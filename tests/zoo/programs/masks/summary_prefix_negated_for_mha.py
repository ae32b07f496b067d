"""Summaries: the article sees itself both ways, the summary itself and the article."""

import torch
from torch import nn


def visible_pairs(article, whole):
    visible = torch.ones(whole, whole, dtype=torch.bool).tril()
    visible[:, :article] = True
    return visible


class Summariser(nn.Module):
    def __init__(self, words=50, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(40, width)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, article, summary):
        ids = torch.cat([article, summary], 1)
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        mask = visible_pairs(article.shape[1], ids.shape[1])
        y = self.norm(x)
        x = x + self.attend(y, y, y, attn_mask=~mask, need_weights=False)[0]
        return self.head(x[:, article.shape[1] :])


# also: AS203 AS201 AS212 AS802
torch.manual_seed(0)
model = Summariser().eval()
inputs = {"article": torch.randint(0, 50, (2, 7)), "summary": torch.randint(0, 50, (2, 5))}
