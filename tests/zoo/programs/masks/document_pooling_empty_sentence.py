"""Hierarchical attention network: words pooled to sentences, sentences pooled to the document."""

import torch
import torch.nn as nn


class AttentionPool(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.seed = nn.Parameter(torch.randn(heads, width // heads) * 0.5)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x, real):
        n, t, w = x.shape
        k = self.key(x).view(n, t, self.heads, -1)
        v = self.value(x).view(n, t, self.heads, -1)
        e = torch.einsum("hd,nthd->nht", self.seed, k) / k.shape[-1] ** 0.5
        e = e.masked_fill(~real[:, None, :], torch.finfo(e.dtype).min)
        a = torch.softmax(e, dim=-1)  # fault: AS203
        return torch.einsum("nht,nthd->nhd", a, v).reshape(n, w)


class HAN(nn.Module):
    def __init__(self, vocab=60, width=20, heads=2, classes=4):
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=0)
        self.place = nn.Parameter(torch.randn(12, width) * 0.2)
        self.word_pool = AttentionPool(width, heads)
        self.mix = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.classify = nn.Linear(width, classes)

    def forward(self, docs):
        """docs (batch, sentences, words); short documents have sentences of zeros alone."""
        b, s, t = docs.shape
        flat = docs.view(b * s, t)
        x = self.words(flat) + self.place[:t]
        sentences = self.word_pool(x, flat != 0).view(b, s, -1)
        return self.classify(self.mix(sentences).mean(1))


# also: AS202
with torch.random.fork_rng():
    torch.manual_seed(23)
    model = HAN().eval()


def inputs():
    docs = torch.randint(1, 60, (3, 4, 6), generator=torch.Generator().manual_seed(2))
    docs[0, 1, 3:] = 0
    docs[1, 2:] = 0
    docs[2, 3] = 0
    return (docs,)
