"""Image captions: patch features as memory, nn.TransformerDecoder on words."""

import torch
import torch.nn as nn


class Captioner(nn.Module):
    def __init__(self, words=70, width=36, patch=15, heads=4):
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(30, width)
        self.see = nn.Linear(patch, width)
        layer = nn.TransformerDecoderLayer(width, heads, 72, 0.1, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(width))
        self.say = nn.Linear(width, words)

    def forward(self, patches, words):
        n = words.size(1)
        tgt = self.embed(words) + self.place.weight[:n]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        h = self.decoder(tgt, tgt, tgt_mask=mask, tgt_is_causal=True)  # fault: AS107|AS201
        return self.say(h)


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = Captioner().eval()
g = torch.Generator().manual_seed(12)
inputs = {"patches": torch.randn(3, 9, 15, generator=g), "words": torch.randint(0, 70, (3, 13), generator=g)}
expect = {"causal": True}
# also: AS201 AS208 AS903 AS107 AS902
