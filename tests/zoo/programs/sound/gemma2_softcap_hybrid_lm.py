"""A small Gemma-2: capped scores, query_pre_attn_scalar, sandwich norms, local and global layers."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class GemmaConfig:
    vocab_size: int = 97
    hidden_size: int = 48
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    query_pre_attn_scalar: int = 12
    attn_logit_softcapping: float = 50.0
    final_logit_softcapping: float = 30.0
    sliding_window: int = 4
    rope_theta: float = 10000.0


class GemmaRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return normed * (1.0 + self.weight)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class GemmaAttention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.n_heads = config.num_attention_heads
        self.n_kv = config.num_key_value_heads
        self.head_dim = config.head_dim
        self.scaling = config.query_pre_attn_scalar**-0.5
        self.softcap = config.attn_logit_softcapping
        self.window = config.sliding_window if layer_idx % 2 == 0 else None
        self.q_proj = nn.Linear(config.hidden_size, self.n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.n_kv * self.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.n_kv * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.n_heads * self.head_dim, config.hidden_size, bias=False)

    def forward(self, hidden_states, cos, sin):
        b, t, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, t, self.n_kv, self.head_dim).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, self.n_kv, self.head_dim).transpose(1, 2)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        k = k.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        scores = torch.tanh(scores / self.softcap) * self.softcap
        i = torch.arange(t, device=q.device)
        allowed = i[:, None] >= i[None, :]
        if self.window is not None:
            allowed = allowed & (i[:, None] - i[None, :] < self.window)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        probs = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(probs, v).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(out)


class GemmaLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        d = config.hidden_size
        self.self_attn = GemmaAttention(config, layer_idx)
        self.gate_up = nn.Linear(d, 8 * d, bias=False)
        self.down = nn.Linear(4 * d, d, bias=False)
        self.input_norm = GemmaRMSNorm(d)
        self.post_attention_norm = GemmaRMSNorm(d)
        self.pre_ffn_norm = GemmaRMSNorm(d)
        self.post_ffn_norm = GemmaRMSNorm(d)

    def forward(self, x, cos, sin):
        x = x + self.post_attention_norm(self.self_attn(self.input_norm(x), cos, sin))
        gate, up = self.gate_up(self.pre_ffn_norm(x)).chunk(2, dim=-1)
        return x + self.post_ffn_norm(self.down(F.gelu(gate, approximate="tanh") * up))


class GemmaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        self.layers = nn.ModuleList(GemmaLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = GemmaRMSNorm(config.hidden_size)
        inv = config.rope_theta ** -(torch.arange(0, config.head_dim, 2).float() / config.head_dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids) * self.config.hidden_size**0.5
        pos = torch.arange(input_ids.shape[1], device=input_ids.device).float()
        freqs = torch.outer(pos, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        logits = F.linear(self.norm(x), self.embed_tokens.weight)
        cap = self.config.final_logit_softcapping
        return torch.tanh(logits / cap) * cap


def model():
    with torch.random.fork_rng():
        torch.manual_seed(21)
        return GemmaForCausalLM(GemmaConfig()).eval()


inputs = {"input_ids": torch.randint(0, 97, (3, 11), generator=torch.Generator().manual_seed(4))}
expect = {"causal": True}
