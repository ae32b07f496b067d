"""Collator of the lab gives pad_mask (True on padding), the model is a HF Llama."""
import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel


class Reranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = LlamaModel(LlamaConfig(vocab_size=66, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, use_cache=False))
        self.score = nn.Linear(32, 1)

    def forward(self, ids, pad_mask):
        h = self.backbone(input_ids=ids, attention_mask=pad_mask).last_hidden_state  # fault: AS205|AS202
        return self.score(h).squeeze(-1)


torch.manual_seed(4)
model = Reranker().eval()
_n = torch.tensor([10, 6, 8])
_pad = torch.arange(10)[None] >= _n[:, None]
inputs = {"ids": torch.randint(1, 66, (3, 10), generator=torch.Generator().manual_seed(0)).masked_fill(_pad, 0), "pad_mask": _pad}
expect = {"padding": "pad_mask drop"}
# also: AS203, AS212
