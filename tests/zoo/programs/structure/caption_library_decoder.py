"""Image captioning head: region features in, caption logits out, library decoder."""

import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, region_dim=20, vocab=47, width=32, heads=4):
        super().__init__()
        self.project = nn.Linear(region_dim, width)
        self.words = nn.Embedding(vocab, width)
        self.places = nn.Parameter(torch.randn(1, 30, width) * 0.1)
        layer = nn.TransformerDecoderLayer(width, heads, dim_feedforward=64, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, num_layers=2)
        self.classify = nn.Linear(width, vocab)

    def forward(self, regions, caption):
        memory = self.project(regions)
        length = caption.shape[1]
        tgt = self.words(caption) + self.places[:, :length]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return self.classify(self.decoder(tgt, memory, tgt_mask=mask))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(80)
        return Captioner().eval()


def inputs():
    g = torch.Generator().manual_seed(81)
    return {
        "regions": torch.randn(4, 9, 20, generator=g),
        "caption": torch.randint(0, 47, (4, 11), generator=g),
    }
