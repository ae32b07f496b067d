"""A BERT stack reused as a left-to-right language model head."""
import torch
from torch import nn
from transformers import BertConfig, BertModel


class BertLM(nn.Module):
    def __init__(self):
        super().__init__()
        cfg = BertConfig(vocab_size=70, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, max_position_embeddings=32)
        self.bert = BertModel(cfg, add_pooling_layer=False)
        self.head = nn.Linear(32, 70)

    def forward(self, input_ids):
        return self.head(self.bert(input_ids=input_ids).last_hidden_state)  # fault: AS201


torch.manual_seed(2)
model = BertLM().eval()
inputs = {"input_ids": torch.randint(1, 70, (2, 12), generator=torch.Generator().manual_seed(2))}
expect = {"causal": True}
