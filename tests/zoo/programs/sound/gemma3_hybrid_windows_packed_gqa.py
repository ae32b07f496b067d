"""Gemma-3 pattern: five local layers to one global one, each with its own rotary base, QK-norm throughout."""

from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab_size: int = 77
    hidden_size: int = 40
    n_heads: int = 4
    n_kv_heads: int = 1
    head_dim: int = 16
    layer_types: list = field(default_factory=lambda: ["local", "local", "global"])
    sliding_window: int = 6
    rope_theta: float = 1_000_000.0
    rope_local_base_freq: float = 10_000.0


def rope_tables(length, dim, base, device):
    inv = base ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)
    angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * inv
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, cfg, kind):
        super().__init__()
        self.cfg, self.kind = cfg, kind
        self.qkv_proj = nn.Linear(cfg.hidden_size, (cfg.n_heads + 2 * cfg.n_kv_heads) * cfg.head_dim, bias=False)
        self.o_proj = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.hidden_size, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(cfg.head_dim, eps=1e-6), nn.RMSNorm(cfg.head_dim, eps=1e-6)

    def forward(self, x):
        cfg = self.cfg
        b, n, _ = x.shape
        qkv = self.qkv_proj(x).view(b, n, -1, cfg.head_dim).transpose(1, 2)
        q, k, v = qkv.split([cfg.n_heads, cfg.n_kv_heads, cfg.n_kv_heads], dim=1)
        base = cfg.rope_theta if self.kind == "global" else cfg.rope_local_base_freq
        cos, sin = rope_tables(n, cfg.head_dim, base, x.device)
        q, k = rotate(self.q_norm(q), cos, sin), rotate(self.k_norm(k), cos, sin)
        distance = torch.arange(n, device=x.device)[:, None] - torch.arange(n, device=x.device)[None, :]
        keep = distance >= 0
        if self.kind == "local":
            keep &= distance < cfg.sliding_window
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.config = cfg
        self.embed = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.attn = nn.ModuleList([Attention(cfg, kind) for kind in cfg.layer_types])
        self.pre = nn.ModuleList([nn.RMSNorm(cfg.hidden_size) for _ in cfg.layer_types])
        self.post = nn.ModuleList([nn.RMSNorm(cfg.hidden_size) for _ in cfg.layer_types])
        self.head = nn.Linear(cfg.hidden_size, cfg.vocab_size, bias=False)

    def forward(self, input_ids):
        h = self.embed(input_ids)
        for pre, attn, post in zip(self.pre, self.attn, self.post):
            h = h + post(attn(pre(h)))
        return self.head(h)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(90)
        return Decoder(Config()).eval()


inputs = {"input_ids": torch.randint(0, 77, (2, 15), generator=torch.Generator().manual_seed(91))}
expect = {"causal": True, "window": [6, 6, None]}
