"""Question similarity with a DistilBERT-sized encoder; padded batches."""
import torch
from torch import nn
from transformers import DistilBertConfig, DistilBertModel


class Similarity(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = DistilBertModel(DistilBertConfig(vocab_size=88, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=32))
        self.out = nn.Linear(32, 16)

    def forward(self, input_ids, attention_mask):
        h = self.enc(input_ids, attention_mask=attention_mask).last_hidden_state
        m = attention_mask[..., None].float()
        return nn.functional.normalize(self.out((h * m).sum(1) / m.sum(1)), dim=-1)


def model():
    torch.manual_seed(3)
    return Similarity().eval()


_m = torch.tensor([[1] * 11, [1] * 5 + [0] * 6, [1] * 8 + [0] * 3])
inputs = {"input_ids": torch.randint(1, 88, (3, 11), generator=torch.Generator().manual_seed(3)) * _m, "attention_mask": _m}
expect = {"padding": "attention_mask keep"}
