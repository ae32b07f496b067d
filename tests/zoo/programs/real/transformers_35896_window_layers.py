"""Qwen2-like decoder where the first max_window_layers slide, https://github.com/huggingface/transformers/issues/35896."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Qwen2ishConfig:
    vocab_size: int = 79
    hidden_size: int = 32
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    num_hidden_layers: int = 4
    use_sliding_window: bool = True
    sliding_window: int = 5
    # the bottom layers use sliding-window attention, the top layers full attention
    max_window_layers: int = 3


class Qwen2Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * self.head_dim)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * self.head_dim)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * self.head_dim)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        batch, length, _ = hidden_states.shape
        shape = (batch, length, -1, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)

        sliding_window = None
        if self.config.use_sliding_window and self.layer_idx >= self.config.max_window_layers:  # fault: AS210|AS306
            sliding_window = self.config.sliding_window

        mask = torch.ones(length, length, dtype=torch.bool).tril()
        if sliding_window is not None:
            mask = mask.triu(1 - sliding_window)
        groups = self.config.num_attention_heads // self.config.num_key_value_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        attn_output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # fault: AS210|AS306
        return self.o_proj(attn_output.transpose(1, 2).reshape(batch, length, -1))


class Qwen2ForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(64, config.hidden_size)
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in range(config.num_hidden_layers)])
        self.layers = nn.ModuleList([Qwen2Attention(config, i) for i in range(config.num_hidden_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids) + self.embed_positions.weight[: input_ids.shape[1]]
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x))
        return self.lm_head(x)


with torch.random.fork_rng():
    torch.manual_seed(35)
    model = Qwen2ForCausalLM(Qwen2ishConfig()).eval()
    inputs = {"input_ids": torch.randint(0, 79, (2, 12))}
expect = {"causal": True, "window": [5, 5, 5, None]}
