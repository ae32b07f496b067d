"""Sentence embeddings from a (small) Hugging Face BERT with masked mean pooling."""
import torch
from torch import nn
from transformers import BertConfig, BertModel


class SentenceEmbedder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.bert = BertModel(cfg, add_pooling_layer=False)
        self.project = nn.Linear(cfg.hidden_size, 24)

    @staticmethod
    def mean_pooling(token_embeddings, attention_mask):
        m = attention_mask.unsqueeze(-1).expand(token_embeddings.size()).float()
        return (token_embeddings * m).sum(1) / m.sum(1).clamp(min=1e-9)

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        out = self.bert(input_ids, token_type_ids=token_type_ids)  # fault: AS202
        return nn.functional.normalize(self.project(self.mean_pooling(out.last_hidden_state, attention_mask)), dim=1)


with torch.random.fork_rng():
    torch.manual_seed(6)
    model = SentenceEmbedder(BertConfig(vocab_size=200, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                        intermediate_size=96, max_position_embeddings=64)).eval()

_ids = torch.randint(5, 200, (3, 14), generator=torch.Generator().manual_seed(6))
_mask = torch.ones_like(_ids)
for _row, _n in enumerate((14, 9, 5)):
    _ids[_row, _n:] = 0
    _mask[_row, _n:] = 0
inputs = {"input_ids": _ids, "attention_mask": _mask}
expect = {"padding": "attention_mask keep"}
