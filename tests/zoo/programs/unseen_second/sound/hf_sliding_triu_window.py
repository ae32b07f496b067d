"""Hybrid decoder: local layers with a sliding window, every second layer global."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class HybridConfig:
    vocab_size: int = 90
    hidden_size: int = 32
    num_heads: int = 4
    sliding_window: int = 4
    layer_types: list = field(default_factory=lambda: ["sliding_attention", "full_attention", "sliding_attention"])


class HybridAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.num_heads = config.num_heads
        self.sliding_window = config.sliding_window if config.layer_types[layer_idx] == "sliding_attention" else None
        self.c_attn = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.c_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states):
        b, t, d = hidden_states.shape
        q, k, v = self.c_attn(hidden_states).split(d, dim=-1)
        q, k, v = (s.view(b, t, self.num_heads, -1).transpose(1, 2) for s in (q, k, v))
        i = torch.arange(t)[:, None]
        j = torch.arange(t)[None, :]
        mask = j <= i
        if self.sliding_window is not None:
            mask = mask.triu(1 - self.sliding_window)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.c_proj(out.transpose(1, 2).reshape(b, t, d))


class HybridModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(64, config.hidden_size)
        n = len(config.layer_types)
        self.attn = nn.ModuleList([HybridAttention(config, i) for i in range(n)])
        self.ln = nn.ModuleList([nn.LayerNorm(config.hidden_size) for _ in range(n)])

    def forward(self, input_ids):
        h = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[-1]))
        for ln, attn in zip(self.ln, self.attn):
            h = h + attn(ln(h))
        return F.linear(h, self.wte.weight)


def model():
    torch.manual_seed(7)
    return HybridModel(HybridConfig()).eval()


inputs = {"input_ids": torch.arange(36).view(2, 18) % 90}
expect = {"causal": True, "window": [4, None, 4]}
