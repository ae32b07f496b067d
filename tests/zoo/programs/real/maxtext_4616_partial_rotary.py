"""Attention with multi-axis rotary positions from a config, https://github.com/AI-Hypercomputer/maxtext/issues/4616."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelConfig:
    vocab_size: int = 94
    hidden_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    rope_theta: float = 10000.0
    partial_rotary_factor: float = 0.25
    use_mrope: bool = True


class RotaryEmbedding(nn.Module):
    def __init__(self, embedding_dims, theta):
        super().__init__()
        self.half = embedding_dims // 2
        self.theta = theta

    def forward(self, x, positions):
        timescale = self.theta ** (torch.arange(self.half).float() / self.half)
        angle = positions[:, None, :, None].float() / timescale
        rotated, rest = x[..., : 2 * self.half], x[..., 2 * self.half :]
        first, second = rotated.chunk(2, dim=-1)
        out = (first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin())
        return torch.cat((*out, rest), dim=-1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        d = config.head_dim
        self.query = nn.Linear(config.hidden_size, config.num_attention_heads * d, bias=False)
        self.key = nn.Linear(config.hidden_size, config.num_key_value_heads * d, bias=False)
        self.value = nn.Linear(config.hidden_size, config.num_key_value_heads * d, bias=False)
        self.out = nn.Linear(config.num_attention_heads * d, config.hidden_size, bias=False)
        self.rotary_embedding = self.init_rotary_embedding(config)

    def init_rotary_embedding(self, config):
        if config.use_mrope:
            return RotaryEmbedding(config.head_dim, config.rope_theta)  # fault: AS306
        return RotaryEmbedding(int(config.head_dim * config.partial_rotary_factor), config.rope_theta)

    def forward(self, x, positions):
        q, k, v = (
            f(x).unflatten(-1, (-1, self.config.head_dim)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        q = self.rotary_embedding(q, positions)  # fault: AS306
        k = self.rotary_embedding(k, positions)  # fault: AS306
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in range(2)])
        self.layers = nn.ModuleList([Attention(config) for _ in range(2)])
        self.logits = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens, positions=None):
        if positions is None:
            positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        x = self.embed(tokens)
        for norm, layer in zip(self.norms, self.layers):
            x = x + layer(norm(x), positions)
        return self.logits(x)


with torch.random.fork_rng():
    torch.manual_seed(4616)
    model = Decoder(ModelConfig()).eval()
    inputs = {"tokens": torch.randint(0, 94, (2, 10))}
expect = {"causal": True}
