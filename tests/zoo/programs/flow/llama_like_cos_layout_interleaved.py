"""A Llama-like attention layer: grouped heads and rotary embedding."""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class LlamaLikeConfig:
    hidden_size: int = 64
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    rope_theta: float = 10000.0


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, position_ids):
        freqs = position_ids[:, :, None].float() * self.inv_freq
        emb = torch.repeat_interleave(freqs, 2, dim=-1)  # fault: AS503
        return emb.cos(), emb.sin()


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q_embed = (q * cos) + (rotate_half(q) * sin)  # fault: AS503
    k_embed = (k * cos) + (rotate_half(k) * sin)  # fault: AS503
    return q_embed, k_embed


class LlamaLikeAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.num_kv = config.num_key_value_heads
        self.head_dim = config.hidden_size // self.num_heads
        self.q_proj = nn.Linear(config.hidden_size, self.num_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.num_kv * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.num_kv * self.head_dim, bias=False)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.rotary = RotaryEmbedding(self.head_dim, config.rope_theta)

    def forward(self, hidden_states):
        bsz, q_len, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(bsz, q_len, self.num_heads, -1).transpose(1, 2)
        k = self.k_proj(hidden_states).view(bsz, q_len, self.num_kv, -1).transpose(1, 2)
        v = self.v_proj(hidden_states).view(bsz, q_len, self.num_kv, -1).transpose(1, 2)
        position_ids = torch.arange(q_len).unsqueeze(0).expand(bsz, -1)
        q, k = apply_rotary_pos_emb(q, k, *self.rotary(position_ids))
        k = k.repeat_interleave(self.num_heads // self.num_kv, dim=1)
        v = v.repeat_interleave(self.num_heads // self.num_kv, dim=1)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)
        causal = torch.full((q_len, q_len), float("-inf")).triu(1)
        weights = nn.functional.softmax(scores + causal, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(bsz, q_len, -1)
        return self.o_proj(out)


with torch.random.fork_rng():
    torch.manual_seed(31)
    model = LlamaLikeAttention(LlamaLikeConfig()).eval()

inputs = {"hidden_states": torch.randn(2, 21, 64, generator=torch.Generator().manual_seed(31))}
expect = {"causal": True}
