"""Tagger with one library attention layer and maps for the notebook."""

import torch
import torch.nn as nn


class Tagger(nn.Module):
    """Return tag scores (batch, length, tags) and the attention maps of every head (batch, heads, length, length)."""

    def __init__(self, vocab=61, width=36, heads=4, tags=7):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.positions = nn.Embedding(50, width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, tags)

    def forward(self, tokens):
        pad = tokens.eq(0)
        x = self.embed(tokens) + self.positions(torch.arange(tokens.size(1)))
        y, maps = self.attn(x, x, x, key_padding_mask=pad)  # fault: AS803
        return self.out(self.norm(x + y)), maps  # fault: AS803


with torch.random.fork_rng():
    torch.manual_seed(60)
    model = Tagger().eval()


def inputs():
    tokens = torch.randint(1, 61, (3, 12), generator=torch.Generator().manual_seed(61))
    tokens[0, 9:] = 0
    tokens[2, 7:] = 0
    return {"tokens": tokens}


expect = {"padding": "tokens pad=0"}
