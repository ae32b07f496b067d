"""Sentence embedding model: transformer encoder, averaged and normalised token states."""

import torch
import torch.nn.functional as F
from torch import nn


class SentenceEncoder(nn.Module):
    def __init__(self, vocab=80, dim=40, heads=4, depth=2):
        super().__init__()
        self.token = nn.Embedding(vocab, dim, padding_idx=0)
        self.position = nn.Embedding(32, dim)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(dim, heads, 64, dropout=0.0, batch_first=True, norm_first=True),
            depth,
            norm=nn.LayerNorm(dim),
            enable_nested_tensor=False,
        )

    def forward(self, input_ids, attention_mask):
        steps = torch.arange(input_ids.size(1), device=input_ids.device)
        hidden = self.token(input_ids) + self.position(steps)
        hidden = self.layers(hidden, src_key_padding_mask=attention_mask == 0)
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weight).sum(dim=1) / weight.sum(dim=1)
        return F.normalize(pooled, dim=-1)


with torch.random.fork_rng():
    torch.manual_seed(5)
    model = SentenceEncoder().eval()

_g = torch.Generator().manual_seed(19)
_mask = (torch.arange(13) < torch.tensor([[13], [7], [9]])).long()
inputs = {"input_ids": torch.randint(1, 80, (3, 13), generator=_g) * _mask, "attention_mask": _mask}
expect = {"padding": "attention_mask keep"}
