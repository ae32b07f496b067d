"""Sentence embeddings from a small Bert, mean pooled."""
import torch
from torch import nn
from transformers import BertConfig, BertModel


class Embedder(nn.Module):
    def __init__(self, pad=0):
        super().__init__()
        self.pad = pad
        self.bert = BertModel(BertConfig(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                         intermediate_size=48, max_position_embeddings=40), add_pooling_layer=False)

    def forward(self, tokens):
        mask = tokens.eq(self.pad).long()  # fault: AS205
        hid = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        real = tokens.ne(self.pad).unsqueeze(-1)
        return (hid * real).sum(1) / real.sum(1)


def build():
    torch.manual_seed(5)
    return Embedder().eval()


model = build
_t = torch.randint(1, 90, (3, 12), generator=torch.Generator().manual_seed(4))
_t[0, 8:] = 0
_t[1, 5:] = 0
_t[2, 10:] = 0
inputs = (_t,)
expect = {"padding": "tokens pad=0"}
# also: AS202 AS212
