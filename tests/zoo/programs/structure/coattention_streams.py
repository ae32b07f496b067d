"""Two streams that read each other: image regions attend to words, words attend to regions."""

import torch
from torch import nn


class CoAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.vision_qkv = nn.Linear(dim, 3 * dim)
        self.text_qkv = nn.Linear(dim, 3 * dim)
        self.vision_out = nn.Linear(dim, dim)
        self.text_out = nn.Linear(dim, dim)

    def read(self, q, k, v):
        b, n, d = q.shape
        q, k, v = (t.view(b, -1, self.heads, d // self.heads).transpose(1, 2) for t in (q, k, v))
        weights = (q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(b, n, d)

    def forward(self, vision, text):
        qv, kv, vv = self.vision_qkv(vision).chunk(3, -1)
        qt, kt, vt = self.text_qkv(text).chunk(3, -1)
        vision = vision + self.vision_out(self.read(qv, kt, vt))
        text = text + self.text_out(self.read(qt, kv, vv))
        return vision, text


class TwoStream(nn.Module):
    def __init__(self, regions=18, vocab=44, dim=24, heads=3):
        super().__init__()
        self.lift = nn.Linear(regions, dim)
        self.words = nn.Embedding(vocab, dim)
        self.co = CoAttention(dim, heads)
        self.box = nn.Linear(dim, 4)
        self.word = nn.Linear(dim, vocab)

    def forward(self, vision, text):
        vision, text = self.co(self.lift(vision), self.words(text))
        return self.box(vision), self.word(text)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(350)
        return TwoStream().eval()


def inputs():
    g = torch.Generator().manual_seed(351)
    return {"vision": torch.randn(2, 11, 18, generator=g), "text": torch.randint(0, 44, (2, 7), generator=g)}

# note: AS501
