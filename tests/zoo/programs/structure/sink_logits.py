"""Causal attention with a learned sink logit per head, as in recent open models."""

import torch
from torch import nn


class SinkConfig:
    hidden_size = 40
    num_heads = 4
    use_sinks = True
    initial_sink = 1.5


class SinkAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.num_heads = config.num_heads
        self.head_dim = config.hidden_size // config.num_heads
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.k_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.v_proj = nn.Linear(config.hidden_size, config.hidden_size)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size)
        if config.use_sinks:
            self.sinks = nn.Parameter(torch.full((config.num_heads,), config.initial_sink))

    def forward(self, hidden_states):
        bsz, length, _ = hidden_states.shape
        shape = (bsz, length, self.num_heads, self.head_dim)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        logits = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        mask = torch.full((length, length), float("-inf")).triu(1)
        logits = logits + mask
        sinks = self.sinks.view(1, -1, 1, 1).expand(bsz, -1, length, 1)
        combined = torch.cat([logits, sinks], dim=-1)
        probs = torch.softmax(combined, dim=-1)
        scores = probs[..., :-1]
        out = torch.matmul(scores, v).transpose(1, 2).reshape(bsz, length, -1)
        return self.o_proj(out)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(250)
        return SinkAttention(SinkConfig())


def inputs():
    return {"hidden_states": torch.randn(2, 12, 40, generator=torch.Generator().manual_seed(251))}
