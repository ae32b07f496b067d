"""Translation by hand: the keys are projected from the decoder's side, the values from the source."""

import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width) for _ in range(4))

    def forward(self, query, key, value):
        q, k, v = (
            w(t).unflatten(-1, (self.heads, -1))
            for w, t in ((self.wq, query), (self.wk, key), (self.wv, value))
        )
        weights = (torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5).softmax(-1)
        return self.wo(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))


class Reader(nn.Module):
    def __init__(self, words=70, width=36, heads=3):
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encode, self.decode = Attend(width, heads), Attend(width, heads)
        self.cross = Attend(width, heads)
        self.words = nn.Linear(width, words)

    def forward(self, tgt_ids, src_ids):
        enc = self.source(src_ids)
        enc = enc + self.encode(enc, enc, enc)
        dec = self.target(tgt_ids)
        dec = dec + self.decode(dec, dec, dec)
        dec = dec + self.cross(dec, dec, enc)  # fault: AS107
        return self.words(dec)


model = Reader().eval()
inputs = {"tgt_ids": torch.randint(0, 70, (3, 8)), "src_ids": torch.randint(0, 70, (3, 8))}
expect = {"causal": False, "positions": False}
