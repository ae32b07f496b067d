"""Vision-language text tower with a config: grouped heads, capped logits."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class TowerConfig:
    hidden_size: int = 48
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 8
    vocab_size: int = 64
    num_hidden_layers: int = 2
    attn_logit_softcapping: float = 3.0
    max_position_embeddings: int = 64
    extra: dict = field(default_factory=dict)


class TowerAttention(nn.Module):
    def __init__(self, config: TowerConfig, layer_idx: int):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        self.n, self.kv, self.d = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, self.n * self.d, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(self.n * self.d, config.hidden_size, bias=False)
        self.softcap = config.attn_logit_softcapping

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n, self.d).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.kv, self.d).transpose(1, 2).repeat_interleave(self.n // self.kv, 1)
        v = self.v_proj(x).view(B, T, self.kv, self.d).transpose(1, 2).repeat_interleave(self.n // self.kv, 1)
        w = q @ k.transpose(-1, -2) / self.d**0.5
        if self.softcap is not None:
            w = torch.tanh(w / self.softcap) * self.softcap
        w = w.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), torch.finfo(w.dtype).min)
        w = w.softmax(-1)
        return self.o_proj((w @ v).transpose(1, 2).flatten(2))


class TextTower(nn.Module):
    def __init__(self, config: TowerConfig):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.pos = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList([TowerAttention(config, i) for i in range(config.num_hidden_layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(config.hidden_size) for _ in range(config.num_hidden_layers)])

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.pos.weight[: input_ids.size(1)]
        for l, n in zip(self.layers, self.norms):
            x = x + l(n(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(29)
    model = TextTower(TowerConfig()).eval()
with torch.no_grad():
    for _l in model.layers:
        _l.q_proj.weight.mul_(3.0)
inputs = {"input_ids": torch.randint(0, 64, (2, 14), generator=torch.Generator().manual_seed(29))}
