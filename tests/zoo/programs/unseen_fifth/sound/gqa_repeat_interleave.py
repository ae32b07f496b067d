"""Mistral-like causal LM, attention written with repeat for the kv heads."""
import math
import torch
from torch import nn


class Config:
    vocab_size = 199
    hidden_size = 64
    num_attention_heads = 8
    num_key_value_heads = 2
    head_dim = 8
    num_hidden_layers = 2
    rope_theta = 10000.0


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class GQAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.q_proj = nn.Linear(cfg.hidden_size, cfg.num_attention_heads * cfg.head_dim, bias=False)
        self.k_proj = nn.Linear(cfg.hidden_size, cfg.num_key_value_heads * cfg.head_dim, bias=False)
        self.v_proj = nn.Linear(cfg.hidden_size, cfg.num_key_value_heads * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.num_attention_heads * cfg.head_dim, cfg.hidden_size, bias=False)

    def forward(self, x, cos, sin):
        c = self.cfg
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, c.num_attention_heads, c.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, t, c.num_key_value_heads, c.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, t, c.num_key_value_heads, c.head_dim).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        n_rep = c.num_attention_heads // c.num_key_value_heads
        k = k.repeat_interleave(n_rep, dim=1)
        v = v.repeat_interleave(n_rep, dim=1)
        s = q @ k.mT / math.sqrt(c.head_dim)
        s = s + torch.full((t, t), float("-inf"), device=x.device).triu(1)
        o = s.softmax(-1).to(v.dtype) @ v
        return self.o_proj(o.transpose(1, 2).contiguous().view(b, t, -1))


class TinyMistral(nn.Module):
    def __init__(self, config=Config()):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(GQAttention(config) for _ in range(config.num_hidden_layers))
        self.norms = nn.ModuleList(nn.RMSNorm(config.hidden_size) for _ in range(config.num_hidden_layers + 1))
        inv = config.rope_theta ** (-torch.arange(0, config.head_dim, 2).float() / config.head_dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        ang = torch.arange(x.shape[1], device=x.device).float()[:, None] * self.inv_freq
        ang = torch.cat((ang, ang), dim=-1)
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x), ang.cos(), ang.sin())
        return self.norms[-1](x) @ self.embed_tokens.weight.T


with torch.random.fork_rng():
    torch.manual_seed(14)
    model = TinyMistral().eval()
