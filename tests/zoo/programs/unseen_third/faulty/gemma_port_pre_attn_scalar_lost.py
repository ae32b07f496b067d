"""Gemma-2 style decoder rewritten on top of SDPA."""
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


def default_config():
    return SimpleNamespace(
        hidden_size=60, num_attention_heads=5, num_key_value_heads=1, head_dim=16,
        query_pre_attn_scalar=144, vocab_size=90, num_hidden_layers=2, rms_norm_eps=1e-6, rope_theta=10000.0,
    )


class GemmaNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(n)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),), eps=self.eps) * (1 + self.weight)


def rope(x, base):
    d, n = x.shape[-1], x.shape[-2]
    f = base ** (-torch.arange(0, d, 2, device=x.device) / d)
    a = torch.arange(n, device=x.device)[:, None] * f
    c, s = a.cos(), a.sin()
    x1, x2 = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1)


class GemmaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * config.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.num_key_value_heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        c = self.config
        q = rope(self.q_proj(x).unflatten(-1, (-1, c.head_dim)).transpose(1, 2), c.rope_theta)
        k = rope(self.k_proj(x).unflatten(-1, (-1, c.head_dim)).transpose(1, 2), c.rope_theta)
        v = self.v_proj(x).unflatten(-1, (-1, c.head_dim)).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)  # fault: AS306|AS301
        return self.o_proj(o.transpose(1, 2).flatten(2))


class GemmaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            nn.ModuleDict(dict(
                pre=GemmaNorm(config.hidden_size, config.rms_norm_eps), attn=GemmaAttention(config),
                post=GemmaNorm(config.hidden_size, config.rms_norm_eps),
                mlp=nn.Sequential(nn.Linear(config.hidden_size, 96), nn.GELU(approximate="tanh"), nn.Linear(96, config.hidden_size)),
            )) for _ in range(config.num_hidden_layers))
        self.norm = GemmaNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids):
        h = self.embed_tokens(input_ids) * self.config.hidden_size**0.5
        for blk in self.layers:
            h = h + blk["post"](blk["attn"](blk["pre"](h)))
            h = h + blk["mlp"](h)
        return self.norm(h) @ self.embed_tokens.weight.T


def build():
    torch.manual_seed(17)
    m = GemmaForCausalLM(default_config())
    for p in m.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.05)
    return m.eval()


model = build
