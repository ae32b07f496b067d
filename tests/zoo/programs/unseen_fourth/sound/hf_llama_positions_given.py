"""Small Llama scored in left padded batches, positions counted from the mask."""
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


class Score(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = LlamaForCausalLM(LlamaConfig(vocab_size=72, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64))

    def forward(self, input_ids, attention_mask):
        pos = attention_mask.long().cumsum(-1) - 1
        pos.masked_fill_(attention_mask == 0, 1)
        return self.lm(input_ids=input_ids, attention_mask=attention_mask, position_ids=pos, use_cache=False).logits[:, -1]


def model():
    torch.manual_seed(9)
    return Score().eval()


_m = torch.tensor([[0] * 3 + [1] * 6, [1] * 9])
inputs = {"input_ids": torch.randint(3, 72, (2, 9), generator=torch.Generator().manual_seed(9)) * _m, "attention_mask": _m}
expect = {"causal": True, "padding": "attention_mask keep"}
