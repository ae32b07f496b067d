"""Attention layer of a Gemma2-like model: config object, eager path."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Gemma2Cfg:
    hidden_size: int = 48
    num_attention_heads: int = 4
    head_dim: int = 12
    attn_logit_softcapping: float = 2.0
    sliding_window: int | None = None
    attention_dropout: float = 0.0


def eager_attention_forward(module, query, key, value, mask, scaling, dropout=0.0, softcap=None, **kwargs):
    attn_weights = query @ key.transpose(2, 3) * scaling  
    if softcap is not None:
        attn_weights = softcap * torch.tanh(attn_weights / softcap)
    if mask is not None:
        attn_weights = attn_weights + mask
    attn_weights = attn_weights.softmax(-1, dtype=torch.float32).to(query.dtype)
    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)
    return (attn_weights @ value).transpose(1, 2).contiguous(), attn_weights


class Gemma2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        inner = config.num_attention_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, inner, bias=False)
        self.o_proj = nn.Linear(inner, config.hidden_size, bias=False)

    def forward(self, hidden_states):
        bsz, n, _ = hidden_states.shape
        q, k, v = (p(hidden_states).view(bsz, n, -1, self.config.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        causal = torch.full((n, n), float("-inf")).triu(1)
        out, _ = eager_attention_forward(
            self, q, k, v, causal, self.config.head_dim**-0.5,
            softcap=self.config.attn_logit_softcapping,
        )
        return self.o_proj(out.flatten(2))


torch.manual_seed(0)
model = Gemma2Attention(Gemma2Cfg()).eval()
inputs = torch.randn(2, 10, 48, generator=torch.Generator().manual_seed(5)) * 3
