"""Gemma 2 in a few lines; the cap takes scaled scores."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    hidden_size: int = 48
    num_heads: int = 4
    head_dim: int = 12
    attn_logit_softcapping: float = 6.0
    query_pre_attn_scalar: int = 36
    vocab_size: int = 60


def soft_cap(scores, cap):
    return cap * torch.tanh(scores / cap)


class GemmaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width = config.num_heads * config.head_dim
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(config.hidden_size, width, bias=False) for _ in range(3)
        )
        self.o_proj = nn.Linear(width, config.hidden_size, bias=False)

    def forward(self, x):
        config = self.config
        q, k, v = (
            layer(x).unflatten(-1, (config.num_heads, -1)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = torch.matmul(q, k.transpose(-2, -1))
        scores = scores / config.query_pre_attn_scalar**0.5
        scores = soft_cap(scores, config.attn_logit_softcapping)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


class GemmaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed, self.places = nn.Embedding(60, 48), nn.Embedding(30, 48)
        self.attention = GemmaAttention(config)
        self.head = nn.Linear(48, 60)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.places.weight[: input_ids.shape[1]]
        return self.head(x + self.attention(x))


torch.manual_seed(0)
model = GemmaForCausalLM(Config()).eval()
inputs = torch.randint(0, 60, (2, 9))
