"""Decoder with partial rotary embeddings and a fused projection ordered head by head."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class NeoConfig:
    vocab_size: int = 51
    hidden_size: int = 64
    num_attention_heads: int = 4
    num_hidden_layers: int = 2
    rotary_pct: float = 0.25
    rotary_emb_base: int = 10000
    max_position_embeddings: int = 64


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class NeoAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.head_size = config.hidden_size // self.num_heads
        self.rotary_ndims = int(self.head_size * config.rotary_pct)
        self.norm_factor = self.head_size**-0.5
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        inv_freq = config.rotary_emb_base ** (-torch.arange(0, self.rotary_ndims, 2).float() / self.rotary_ndims)
        angles = torch.outer(torch.arange(config.max_position_embeddings).float(), inv_freq)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rope(self, x):
        turn, rest = x[..., : self.rotary_ndims], x[..., self.rotary_ndims :]
        n = x.shape[-2]
        turn = turn * self.cos[:n] + rotate_half(turn) * self.sin[:n]
        return torch.cat((turn, rest), dim=-1)

    def forward(self, hidden_states):
        batch, length, hidden = hidden_states.shape
        # [batch, length, heads, 3 * head_size] -> [batch, heads, length, 3 * head_size]
        qkv = self.query_key_value(hidden_states).view(batch, length, self.num_heads, 3 * self.head_size)
        query, key, value = qkv.transpose(1, 2).chunk(3, dim=-1)
        query, key = self.rope(query), self.rope(key)
        attn_scores = torch.matmul(query, key.transpose(-1, -2)) * self.norm_factor
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        attn_scores = torch.where(causal, attn_scores, torch.finfo(attn_scores.dtype).min)
        attn_weights = nn.functional.softmax(attn_scores, dim=-1)
        attn_output = torch.matmul(attn_weights, value)
        attn_output = attn_output.permute(0, 2, 1, 3).contiguous().view(batch, length, hidden)
        return self.dense(attn_output)


class NeoModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_in = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norms = nn.ModuleList(nn.LayerNorm(config.hidden_size) for _ in range(config.num_hidden_layers))
        self.layers = nn.ModuleList(NeoAttention(config) for _ in range(config.num_hidden_layers))
        self.embed_out = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        h = self.embed_in(input_ids)
        for norm, layer in zip(self.norms, self.layers):
            h = h + layer(norm(h))
        return self.embed_out(h)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(240)
        return NeoModel(NeoConfig()).eval()


def inputs():
    return {"input_ids": torch.randint(0, 51, (3, 18), generator=torch.Generator().manual_seed(241))}
