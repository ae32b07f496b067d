"""Small Llama: RMSNorm, rotary, grouped key/value heads, SwiGLU."""
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

cfg = SimpleNamespace(hidden_size=48, num_attention_heads=6, num_key_value_heads=2, head_dim=8, num_hidden_layers=2,
                      intermediate_size=80, vocab_size=97, rope_theta=500.0, rms_norm_eps=1e-5)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rotary(x, cos, sin):
    return x * cos + rotate_half(x) * sin


def repeat_kv(x, n):
    b, kv, t, d = x.shape
    return x[:, :, None].expand(b, kv, n, t, d).reshape(b, kv * n, t, d)


class LlamaAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        e, d = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(e, config.num_attention_heads * d, bias=False)
        self.k_proj = nn.Linear(e, config.num_key_value_heads * d, bias=False)
        self.v_proj = nn.Linear(e, config.num_key_value_heads * d, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * d, e, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        shape = (b, t, -1, self.config.head_dim)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        q = apply_rotary(q, cos, sin)
        k = apply_rotary(k, cos, sin)
        groups = self.config.num_attention_heads // self.config.num_key_value_heads
        k = repeat_kv(k, groups)
        v = repeat_kv(v, groups)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        e, m = config.hidden_size, config.intermediate_size
        self.attn = LlamaAttention(config)
        self.gate, self.up, self.down = nn.Linear(e, m, bias=False), nn.Linear(e, m, bias=False), nn.Linear(m, e, bias=False)
        self.norm1 = nn.RMSNorm(e, eps=config.rms_norm_eps)
        self.norm2 = nn.RMSNorm(e, eps=config.rms_norm_eps)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class TinyLlama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(config.hidden_size)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        t = input_ids.shape[1]
        half = torch.arange(0, self.config.head_dim, 2).float() / self.config.head_dim
        freq = torch.outer(torch.arange(t).float(), 10000.0 ** -half)  # fault: AS306
        angles = torch.cat((freq, freq), dim=-1)
        cos, sin = angles.cos(), angles.sin()
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.norm(x))


torch.manual_seed(11)
model = TinyLlama(cfg).eval()
inputs = {"input_ids": torch.randint(3, 97, (3, 13))}
