"""Sentence vectors with a Hugging Face BERT, batch padded by hand."""
import torch
from torch import nn
from transformers import BertConfig, BertModel


class SentenceVectors(nn.Module):
    def __init__(self):
        super().__init__()
        cfg = BertConfig(vocab_size=80, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=32, pad_token_id=0)
        self.bert = BertModel(cfg)
        self.proj = nn.Linear(32, 12)

    def forward(self, input_ids):
        hidden = self.bert(input_ids).last_hidden_state  # fault: AS202
        return nn.functional.normalize(self.proj(hidden[:, 0]), dim=-1)


torch.manual_seed(0)
model = SentenceVectors().eval()
_ids = torch.randint(3, 80, (3, 11), generator=torch.Generator().manual_seed(5))
_ids[0, 6:] = 0
_ids[2, 9:] = 0
inputs = {"input_ids": _ids}
expect = {"padding": "input_ids pad=0"}
