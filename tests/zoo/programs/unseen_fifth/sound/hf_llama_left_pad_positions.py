"""Batch scorer around a tiny Llama, left-padded prompts with explicit position ids."""
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


class LlamaScorer(nn.Module):
    def __init__(self):
        super().__init__()
        cfg = LlamaConfig(vocab_size=130, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=6,
                          num_key_value_heads=2, max_position_embeddings=64)
        self.lm = LlamaForCausalLM(cfg)

    def forward(self, input_ids, attention_mask):
        position_ids = attention_mask.long().cumsum(-1) - 1
        position_ids.masked_fill_(attention_mask == 0, 1)
        return self.lm(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, use_cache=False).logits


with torch.random.fork_rng():
    torch.manual_seed(23)
    model = LlamaScorer().eval()
_am = torch.tensor([[0] * 3 + [1] * 9, [1] * 12, [0] * 6 + [1] * 6])
inputs = {"input_ids": torch.randint(1, 130, (3, 12), generator=torch.Generator().manual_seed(23)) * _am, "attention_mask": _am}
expect = {"causal": True, "padding": "attention_mask keep"}
