"""Caption decoder over frozen image features: the features need no gradient, their projections do."""

import torch
from torch import nn
from torch.nn import functional as F


class CrossAttention(nn.Module):
    def __init__(self, width, source, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width)
        self.to_k, self.to_v = nn.Linear(source, width), nn.Linear(source, width)
        self.to_out = nn.Linear(width, width)

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, words, patches):
        q = self.split(self.to_q(words))
        with torch.no_grad():
            k = self.split(self.to_k(patches))  # fault: AS902
            v = self.split(self.to_v(patches))  # fault: AS902
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(mixed.transpose(1, 2).flatten(2))


class Captioner(nn.Module):
    def __init__(self, vocab=40, width=32, source=24):
        super().__init__()
        self.backbone = nn.Conv2d(3, source, 4, 4)
        self.words, self.places = nn.Embedding(vocab, width), nn.Embedding(20, width)
        self.norm, self.cross = nn.LayerNorm(width), CrossAttention(width, source, 4)
        self.head = nn.Linear(width, vocab)

    def forward(self, image, ids):
        patches = self.backbone(image).flatten(2).transpose(1, 2).detach()
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        x = x + self.cross(self.norm(x), patches)
        return self.head(x)


torch.manual_seed(6)
model = Captioner()
_draw = torch.Generator().manual_seed(6)
inputs = {
    "image": torch.randn(2, 3, 12, 16, generator=_draw),
    "ids": torch.randint(0, 40, (2, 9), generator=_draw),
}
