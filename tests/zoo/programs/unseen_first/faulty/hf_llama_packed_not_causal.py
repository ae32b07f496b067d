"""Two conversations packed in one row for a small Llama, kept apart by a block mask."""
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM


class PackedLlama(nn.Module):
    def __init__(self):
        super().__init__()
        cfg = LlamaConfig(vocab_size=100, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6,
                          num_key_value_heads=2, max_position_embeddings=64, attn_implementation="sdpa")
        self.llama = LlamaForCausalLM(cfg)

    def forward(self, input_ids, segment):
        n = input_ids.shape[1]
        same = segment[:, None, :, None] == segment[:, None, None, :]  # fault: AS201
        begin = torch.ones_like(segment, dtype=torch.bool)
        begin[:, 1:] = segment[:, 1:] != segment[:, :-1]
        index = torch.arange(n).expand_as(segment)
        position_ids = index - torch.where(begin, index, 0).cummax(dim=1).values
        return self.llama(input_ids, attention_mask=same, position_ids=position_ids, use_cache=False).logits  # fault: AS201


torch.manual_seed(40)
model = PackedLlama().eval()
inputs = {"input_ids": torch.randint(3, 100, (2, 13)), "segment": torch.tensor([[0] * 5 + [1] * 8, [0] * 9 + [1] * 4])}
expect = {"causal": True, "documents": "segment"}
