"""Gemma-2-like attention at the proportions of the largest size, https://github.com/huggingface/transformers/issues/31891."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Gemma2Config:
    hidden_size: int = 72
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    query_pre_attn_scalar: float = 18.0
    attn_logit_softcapping: float = 50.0
    vocab_size: int = 83


class Gemma2Attention(nn.Module):
    def __init__(self, config: Gemma2Config):
        super().__init__()
        self.config = config
        self.head_dim = config.head_dim
        self.scaling = config.query_pre_attn_scalar**-0.5
        self.groups = config.num_attention_heads // config.num_key_value_heads
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * config.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.size()
        q = self.q_proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
        k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        attn_weights = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        cap = self.config.attn_logit_softcapping
        attn_weights = torch.tanh(attn_weights / cap) * cap
        causal = torch.triu(torch.full((q_len, q_len), torch.finfo(q.dtype).min), diagonal=1)
        attn_weights = nn.functional.softmax(attn_weights + causal, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(attn_weights, v).transpose(1, 2).reshape(bsz, q_len, -1)
        return self.o_proj(out)


class Gemma2Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.embed_positions = nn.Embedding(64, config.hidden_size)
        self.input_layernorm = nn.RMSNorm(config.hidden_size)
        self.self_attn = Gemma2Attention(config)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids) * self.config.hidden_size**0.5
        x = x + self.embed_positions.weight[: input_ids.shape[1]]
        return x + self.self_attn(self.input_layernorm(x))


with torch.random.fork_rng():
    torch.manual_seed(31)
    model = Gemma2Model(Gemma2Config()).eval()
    inputs = {"input_ids": torch.randint(0, 83, (2, 9))}
expect = {"causal": True}
