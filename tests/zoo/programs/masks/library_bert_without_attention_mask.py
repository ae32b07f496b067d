"""Intent classifier on the library's BERT, batches padded with [PAD]=0."""

import torch
from torch import nn
from transformers import BertConfig, BertModel


class IntentClassifier(nn.Module):
    def __init__(self, bert, n_intents):
        super().__init__()
        self.bert = bert
        self.head = nn.Linear(bert.config.hidden_size, n_intents)

    def forward(self, input_ids):
        out = self.bert(input_ids=input_ids)  # fault: AS202
        return self.head(out.last_hidden_state[:, 0])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(2)
        config = BertConfig(
            vocab_size=64,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=48,
            max_position_embeddings=32,
        )
        return IntentClassifier(BertModel(config, add_pooling_layer=False), 6).eval()


_ids = torch.randint(5, 64, (5, 12), generator=torch.Generator().manual_seed(3))
_ids[torch.arange(12)[None, :] >= torch.tensor([12, 5, 9, 4, 7])[:, None]] = 0
inputs = {"input_ids": _ids}
expect = {"padding": "input_ids pad=0"}
