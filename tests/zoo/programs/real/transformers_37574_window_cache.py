"""Gemma-like decoder with a fixed-size window cache, https://github.com/huggingface/transformers/issues/37574."""

from collections import namedtuple
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

Output = namedtuple("Output", "logits past_key_values")


@dataclass
class GemmitaConfig:
    vocab_size: int = 61
    hidden_size: int = 40
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 12
    sliding_window: int = 6
    rope_theta: float = 10000.0


class WindowCacheLayer:
    """Keys and values of the last `window` tokens in a buffer that never grows."""

    def __init__(self, window, like):
        self.window = window
        batch, heads, _, width = like.shape
        self.keys = like.new_zeros(batch, heads, window, width)
        self.values = like.new_zeros(batch, heads, window, width)
        self.seen = 0

    def first_position(self):
        return max(0, self.seen - self.window)

    def update_many(self, keys, values):
        held = min(self.seen, self.window)
        start = self.first_position()
        keys = torch.cat([self.keys[:, :, :held], keys], dim=2)
        values = torch.cat([self.values[:, :, :held], values], dim=2)
        self.seen = start + keys.shape[2]
        last = min(keys.shape[2], self.window)
        self.keys = torch.zeros_like(self.keys)
        self.values = torch.zeros_like(self.values)
        self.keys[:, :, :last] = keys[:, :, -last:]
        self.values[:, :, :last] = values[:, :, -last:]
        return keys, values, start + torch.arange(keys.shape[2])

    def update_one(self, keys, values, position):
        slot = min(position, self.window - 1)
        if slot >= self.window - 1:  # fault: AS601
            self.keys = self.keys.roll(-1, dims=2)
            self.values = self.values.roll(-1, dims=2)
        self.keys = self.keys.clone()
        self.values = self.values.clone()
        self.keys[:, :, slot] = keys[:, :, 0]
        self.values[:, :, slot] = values[:, :, 0]
        self.seen = position + 1
        return self.keys, self.values, self.first_position() + torch.arange(self.window)


def rotate(x, positions, theta):
    half = x.shape[-1] // 2
    inverse = theta ** (-torch.arange(half, dtype=torch.float32) / half)
    angles = positions[:, None].float() * inverse
    cos, sin = angles.cos(), angles.sin()
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class GemmitaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width, d = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(width, config.num_attention_heads * d, bias=False)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * d, bias=False)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * d, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * d, width, bias=False)

    def forward(self, hidden_states, positions, cache):
        batch, length, _ = hidden_states.shape
        window = self.config.sliding_window
        shape = (batch, length, -1, self.config.head_dim)
        q = rotate(self.q_proj(hidden_states).view(shape).transpose(1, 2), positions, self.config.rope_theta)
        k = rotate(self.k_proj(hidden_states).view(shape).transpose(1, 2), positions, self.config.rope_theta)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if cache is None:
            cache = WindowCacheLayer(window, k)
        if length == 1:
            k, v, key_positions = cache.update_one(k, v, int(positions[0]))
        else:
            k, v, key_positions = cache.update_many(k, v)
        distance = positions[:, None] - key_positions[None, :]
        mask = (distance >= 0) & (distance < window)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        return self.o_proj(context.transpose(1, 2).reshape(batch, length, -1)), cache


class GemmitaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        layers = range(config.num_hidden_layers)
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in layers])
        self.layers = nn.ModuleList([GemmitaAttention(config) for _ in layers])
        self.norm = nn.RMSNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, past_key_values=None):
        past = past_key_values or [None] * len(self.layers)
        start = past[0].seen if past[0] is not None else 0
        positions = torch.arange(start, start + input_ids.shape[1])
        hidden = self.embed_tokens(input_ids)
        caches = []
        for norm, layer, cache in zip(self.norms, self.layers, past):
            attended, cache = layer(norm(hidden), positions, cache)
            hidden = hidden + attended
            caches.append(cache)
        return Output(self.lm_head(self.norm(hidden)), caches)


with torch.random.fork_rng():
    torch.manual_seed(37)
    model = GemmitaForCausalLM(GemmitaConfig()).eval()
    inputs = {"input_ids": torch.randint(0, 61, (2, 11))}
expect = {"causal": True, "window": 6, "cache": "past_key_values"}
