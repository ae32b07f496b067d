"""DETR-like decoder: learned object queries, no mask between them, padded image memory."""

import torch
from torch import nn


class Objects(nn.Module):
    def __init__(self, d=32, heads=4, queries=7):
        super().__init__()
        self.pixels, self.place = nn.Linear(10, d), nn.Embedding(30, d)
        self.query = nn.Embedding(queries, d)
        layer = nn.TransformerDecoderLayer(d, heads, 48, 0.1, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.box = nn.Linear(d, 4)

    def forward(self, feats, feat_pad):
        memory = self.pixels(feats) + self.place.weight[: feats.size(1)]
        tgt = self.query.weight.unsqueeze(0).expand(feats.size(0), -1, -1)
        return self.box(self.decoder(tgt, memory, memory_key_padding_mask=~feat_pad)).sigmoid()  # fault: AS205


torch.manual_seed(30)
model = Objects().eval()
inputs = {"feats": torch.randn(3, 18, 10), "feat_pad": torch.arange(18)[None] >= torch.tensor([[18], [12], [9]])}
expect = {"padding": "feat_pad drop"}
# also: AS202 AS203 AS802 AS212
