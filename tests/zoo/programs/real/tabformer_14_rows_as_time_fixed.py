"""Hierarchical encoder of tabular transactions: fields first, then the row, https://github.com/IBM/TabFormer/pull/14."""

import torch
from torch import nn


class TabFormerEmbeddings(nn.Module):
    def __init__(self, vocab_size=120, ncols=6, field_hidden_size=20, hidden_size=44, nhead=4):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, field_hidden_size, padding_idx=0)
        encoder_layer = nn.TransformerEncoderLayer(d_model=field_hidden_size, nhead=nhead, dim_feedforward=field_hidden_size, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layer, num_layers=1, enable_nested_tensor=False)
        self.lin_proj = nn.Linear(field_hidden_size * ncols, hidden_size)
        self.hidden_size = field_hidden_size

    def forward(self, input_ids):
        """input_ids: (batch, transactions, columns)."""
        inputs_embeds = self.word_embeddings(input_ids)
        embeds_shape = list(inputs_embeds.size())
        inputs_embeds = inputs_embeds.view([-1] + embeds_shape[-2:])
        inputs_embeds = self.transformer_encoder(inputs_embeds)
        inputs_embeds = inputs_embeds.contiguous().view(embeds_shape[0:2] + [-1])
        return self.lin_proj(inputs_embeds)


# note: AS501
with torch.random.fork_rng():
    torch.manual_seed(14)
    model = TabFormerEmbeddings().eval()
    inputs = {"input_ids": torch.randint(1, 120, (3, 5, 6))}
