"""Captions: patches in front of the words, patches see one another."""

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out, self.norm = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            nn.LayerNorm(width),
        )

    def forward(self, x, shown):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=shown)  # fault: AS212
        return x + self.out(y.transpose(1, 2).flatten(2))


class Captions(nn.Module):
    def __init__(self, words=45, width=32):
        super().__init__()
        self.patch, self.word = nn.Linear(18, width), nn.Embedding(words, width)
        self.place = nn.Embedding(30, width)
        self.layers = nn.ModuleList([Layer(width) for _ in range(2)])
        self.head = nn.Linear(width, words)

    def forward(self, patches, words):
        x = torch.cat([self.patch(patches), self.word(words)], 1)
        x = x + self.place.weight[: x.shape[1]]
        at = torch.arange(x.shape[1])
        shown = at[:, None] >= at  # fault: AS212
        for layer in self.layers:
            x = layer(x, shown)
        return self.head(x[:, patches.shape[1] :])


torch.manual_seed(0)
model = Captions().eval()
inputs = {"patches": torch.randn(2, 6, 18), "words": torch.randint(0, 45, (2, 8))}
expect = {"causal": True, "prefix": 6}
