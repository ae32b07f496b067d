"""Sentence vectors from a BERT of transformers: masked mean, normalised."""

import torch
from torch import nn
from transformers import BertConfig, BertModel


class SentenceBert(nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(
            vocab_size=130,
            hidden_size=36,
            num_hidden_layers=2,
            num_attention_heads=3,
            intermediate_size=70,
            max_position_embeddings=32,
        )
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(115)
        return SentenceBert().eval()


inputs = {
    "input_ids": torch.randint(1, 130, (4, 13), generator=torch.Generator().manual_seed(116)),
    "attention_mask": (torch.arange(13)[None] < torch.tensor([[13], [10], [4], [7]])).long(),
}
expect = {"padding": "attention_mask keep"}
