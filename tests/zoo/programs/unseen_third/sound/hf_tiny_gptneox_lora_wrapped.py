"""GPT-NeoX with hand-made LoRA around every fused projection, base frozen."""
import torch
from torch import nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


class Lora(nn.Module):
    def __init__(self, base, r=2):
        super().__init__()
        self.base = base
        self.a, self.b = nn.Linear(base.in_features, r, bias=False), nn.Linear(r, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def get_model():
    torch.manual_seed(0)
    net = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=80, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64, use_cache=False))
    net.requires_grad_(False)
    for layer in net.gpt_neox.layers:
        layer.attention.query_key_value = Lora(layer.attention.query_key_value)
    return net.eval()


model = get_model
inputs = {"input_ids": torch.randint(0, 80, (2, 9), generator=torch.Generator().manual_seed(0))}
