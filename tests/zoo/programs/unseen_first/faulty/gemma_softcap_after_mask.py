"""Gemma-2-like decoder block stack with soft-capped logits and its own query scale."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GemmaishConfig:
    vocab_size: int = 41
    hidden_size: int = 30
    num_attention_heads: int = 3
    num_key_value_heads: int = 1
    head_dim: int = 12
    query_pre_attn_scalar: float = 18.0
    attn_logit_softcapping: float = 2.0
    layers: int = 2


class GemmaishAttention(nn.Module):
    def __init__(self, config: GemmaishConfig):
        super().__init__()
        self.config = config
        self.scaling = config.query_pre_attn_scalar ** -0.5
        self.softcap = config.attn_logit_softcapping
        hd = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * hd, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * hd, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * hd, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * hd, config.hidden_size, bias=False)

    def forward(self, hidden, mask):
        b, n, _ = hidden.shape
        q = self.q_proj(hidden).view(b, n, -1, self.config.head_dim).transpose(1, 2)
        k = self.k_proj(hidden).view(b, n, -1, self.config.head_dim).transpose(1, 2)
        v = self.v_proj(hidden).view(b, n, -1, self.config.head_dim).transpose(1, 2)
        weights = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        weights = weights + mask
        weights = torch.tanh(weights / self.softcap) * self.softcap  # fault: AS201|AS207
        weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(b, n, -1)
        return self.o_proj(out)


class Gemmaish(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.where = nn.Embedding(40, config.hidden_size)
        self.attn = nn.ModuleList(GemmaishAttention(config) for _ in range(config.layers))
        self.pre = nn.ModuleList(nn.RMSNorm(config.hidden_size) for _ in range(config.layers))
        self.post = nn.ModuleList(nn.RMSNorm(config.hidden_size) for _ in range(config.layers))

    def forward(self, input_ids):
        n = input_ids.shape[1]
        mask = torch.full((n, n), torch.finfo(torch.float32).min).triu(1)
        x = self.embed(input_ids) + self.where(torch.arange(n))
        for pre, attn, post in zip(self.pre, self.attn, self.post):
            x = x + post(attn(pre(x), mask))
        return x @ self.embed.weight.T


def model():
    with torch.random.fork_rng():
        torch.manual_seed(27)
        net = Gemmaish(GemmaishConfig()).eval()
        for layer in net.attn:
            nn.init.normal_(layer.q_proj.weight, std=0.5)
            nn.init.normal_(layer.k_proj.weight, std=0.5)
        return net


inputs = {"input_ids": torch.randint(0, 41, (2, 14), generator=torch.Generator().manual_seed(1))}
# also: AS201|AS207
expect = {"causal": True}
