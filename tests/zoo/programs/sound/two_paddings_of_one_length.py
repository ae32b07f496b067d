"""A source and a target of one length, each with its own padding; hand-written decoder layers."""

import torch
import torch.nn.functional as F
from torch import nn

PAD = 0


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, context, mask):
        q, k, v = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, y in ((self.q, x), (self.k, context), (self.v, context))
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.own, self.cross = Attention(width, heads), Attention(width, heads)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, x, memory, own_mask, memory_mask):
        x = self.norms[0](x + self.own(x, x, own_mask))
        return self.norms[1](x + self.cross(x, memory, memory_mask))


class Translator(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.source, self.target = nn.Embedding(50, width), nn.Embedding(50, width)
        self.places = nn.Parameter(torch.randn(24, width) * 0.3)
        self.encoder = Attention(width, heads)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(3))
        self.head = nn.Linear(width, 50)

    def forward(self, source, target):
        source_mask = (source != PAD)[:, None, None]
        length = target.shape[1]
        earlier = torch.ones(length, length, dtype=torch.bool).tril()
        target_mask = (target != PAD)[:, None, None] & earlier
        memory = self.source(source) + self.places[: source.shape[1]]
        memory = memory + self.encoder(memory, memory, source_mask)
        x = self.target(target) + self.places[:length]
        for layer in self.layers:
            x = layer(x, memory, target_mask, source_mask)
        return self.head(x)


torch.manual_seed(0)
model = Translator().eval()
_source, _target = torch.randint(1, 50, (3, 8)), torch.randint(1, 50, (3, 8))
_source[0, 6:] = PAD
_target[1, 3:] = PAD
_target[0, 7:] = PAD
inputs = {"source": _source, "target": _target}
expect = {"padding": "source pad=0", "causal": True}
