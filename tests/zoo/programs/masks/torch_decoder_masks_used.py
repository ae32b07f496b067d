"""Summariser decoder: nn.TransformerDecoder behind a wrapper that takes the masks as PyTorch names them."""

import torch
from torch import nn


class SummaryDecoder(nn.Module):
    def __init__(self, vocab=67, dim=36, heads=3, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(30, dim)
        layer = nn.TransformerDecoderLayer(dim, heads, 72, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.out = nn.Linear(dim, vocab)

    def forward(self, summary, memory, tgt_mask=None, memory_key_padding_mask=None):
        x = self.embed(summary) + self.pos(torch.arange(summary.size(1)))
        x = self.decoder(
            x, memory, tgt_mask=tgt_mask, memory_key_padding_mask=memory_key_padding_mask
        )
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(47)
    model = SummaryDecoder().eval()


def inputs():
    g = torch.Generator().manual_seed(47)
    return {
        "summary": torch.randint(0, 67, (3, 6), generator=g),
        "memory": torch.randn(3, 14, 36, generator=g),
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(6),
        "memory_key_padding_mask": torch.arange(14)[None, :] >= torch.tensor([14, 9, 10])[:, None],
    }


expect = {"causal": True}
