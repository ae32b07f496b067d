"""Classifier that takes all of a pre-trained encoder and gets a head of its own."""

import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab=66, dim=30, heads=5, places=40):
        super().__init__()
        self.heads = heads
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(places, dim)
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Linear(30, classes)

    def forward(self, ids):
        return self.classifier(self.encoder(ids).mean(1))


def pretrained():
    gen = torch.Generator().manual_seed(154)
    with torch.random.fork_rng():
        shapes = Encoder().state_dict()
    state = {f"encoder.{n}": 0.3 * torch.randn(p.shape, generator=gen) for n, p in shapes.items()}
    state["encoder.norm.weight"] += 1
    state["lm_head.weight"] = torch.randn(66, 30, generator=gen)
    return state


def model():
    with torch.random.fork_rng():
        torch.manual_seed(154)
        net = Classifier()
    missing, _ = net.load_state_dict(pretrained(), strict=False)
    assert missing == ["classifier.weight", "classifier.bias"]
    return net.eval()


inputs = {"ids": torch.randint(0, 66, (3, 10), generator=torch.Generator().manual_seed(154))}
