"""Classifier restored from late in training."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(d // self.h)
        weights = torch.softmax(scores, dim=-1)  # fault: AS403|AS302
        return self.o(torch.einsum("bhqk,bhkd->bhqd", weights, v).transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    def __init__(self, vocab=80, d=40, h=4, places=30, classes=5):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, d), nn.Embedding(places, d)
        self.norm = nn.LayerNorm(d)
        self.attn = Attention(d, h)
        self.head = nn.Linear(d, classes)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = x + self.attn(self.norm(x))
        return self.head(x.mean(1))


def late_weights(net):
    gen = torch.Generator().manual_seed(122)
    state = net.state_dict()
    for name in ("attn.q.weight", "attn.k.weight"):
        state[name] = state[name] + 1.1 * torch.randn(40, 40, generator=gen)
    return state


def model():
    with torch.random.fork_rng():
        torch.manual_seed(122)
        net = Classifier()
    net.load_state_dict(late_weights(net))
    return net.eval()


inputs = {"ids": torch.randint(0, 80, (3, 18), generator=torch.Generator().manual_seed(122))}
# also: AS901
