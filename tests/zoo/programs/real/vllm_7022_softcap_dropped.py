"""Gemma-2 attention on the fused backend, https://github.com/vllm-project/vllm/pull/7022."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab_size: int = 91
    hidden_size: int = 48
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 12
    query_pre_attn_scalar: int = 12
    attn_logit_softcapping: float = 2.0


class SdpaBackend:
    def __init__(self, scale, num_kv_groups, logits_soft_cap=None):
        self.scale = scale
        self.num_kv_groups = num_kv_groups
        self.logits_soft_cap = logits_soft_cap

    def forward(self, query, key, value):
        key = key.repeat_interleave(self.num_kv_groups, dim=1)
        value = value.repeat_interleave(self.num_kv_groups, dim=1)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=self.scale)  # fault: AS306|AS208


class Gemma2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.q_size = config.num_attention_heads * config.head_dim
        self.kv_size = config.num_key_value_heads * config.head_dim
        self.qkv_proj = nn.Linear(config.hidden_size, self.q_size + 2 * self.kv_size, bias=False)
        self.o_proj = nn.Linear(self.q_size, config.hidden_size, bias=False)
        self.attn = SdpaBackend(
            config.query_pre_attn_scalar**-0.5,
            config.num_attention_heads // config.num_key_value_heads,
            logits_soft_cap=config.attn_logit_softcapping,
        )

    def forward(self, hidden_states):
        q, k, v = self.qkv_proj(hidden_states).split([self.q_size, self.kv_size, self.kv_size], dim=-1)
        q, k, v = (t.unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2) for t in (q, k, v))
        out = self.attn.forward(q, k, v)
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Gemma2(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.place = nn.Embedding(64, config.hidden_size)
        self.norm = nn.RMSNorm(config.hidden_size)
        self.attn = Gemma2Attention(config)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.place(torch.arange(input_ids.shape[1]))
        return x + self.attn(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = Gemma2(Config()).eval()
    nn.init.normal_(model.attn.qkv_proj.weight, std=0.4)
    inputs = torch.randint(0, 91, (2, 10))
expect = {"causal": True}
