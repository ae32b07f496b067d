"""Cross-encoder around a small BERT; the collator pads on the right."""

import torch
from torch import nn
from transformers import BertConfig, BertModel


class PairScorer(nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(
            vocab_size=120, hidden_size=36, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=72, max_position_embeddings=48,
        )
        self.bert = BertModel(config)
        self.score = nn.Linear(36, 1)

    def forward(self, input_ids, token_type_ids, attention_mask):
        hidden = self.bert(input_ids, token_type_ids=token_type_ids).last_hidden_state  # fault: AS202|AS208
        return self.score(hidden[:, 0]).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(23)
    model = PairScorer().eval()
    input_ids = torch.randint(1, 120, (4, 18))
lengths = torch.tensor([18, 11, 15, 8])
attention_mask = (torch.arange(18) < lengths[:, None]).long()
inputs = {
    "input_ids": input_ids * attention_mask,
    "token_type_ids": (torch.arange(18) > 5).long() * attention_mask,
    "attention_mask": attention_mask,
}
expect = {"padding": "attention_mask keep", "causal": False}
# also: AS208
