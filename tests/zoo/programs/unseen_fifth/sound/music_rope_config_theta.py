"""Piano-roll language model with a config object."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass


@dataclass
class MusicConfig:
    vocab_size: int = 90
    hidden_size: int = 48
    num_attention_heads: int = 4
    num_hidden_layers: int = 2
    max_position_embeddings: int = 256
    rope_theta: float = 500.0
    rms_norm_eps: float = 1e-6


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.n = config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x, freqs_cis):
        B, T, C = x.shape
        q = apply_rotary(self.q_proj(x).view(B, T, self.n, -1), freqs_cis).transpose(1, 2)
        k = apply_rotary(self.k_proj(x).view(B, T, self.n, -1), freqs_cis).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.n, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(B, T, C))


class MusicLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        d = config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, d)
        self.attn = nn.ModuleList([Attention(config) for _ in range(config.num_hidden_layers)])
        self.mlp = nn.ModuleList([nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
                                  for _ in range(config.num_hidden_layers)])
        self.n1 = nn.ModuleList([nn.RMSNorm(d, config.rms_norm_eps) for _ in range(config.num_hidden_layers)])
        self.n2 = nn.ModuleList([nn.RMSNorm(d, config.rms_norm_eps) for _ in range(config.num_hidden_layers)])
        self.norm = nn.RMSNorm(d, config.rms_norm_eps)
        self.lm_head = nn.Linear(d, config.vocab_size, bias=False)
        self.lm_head.weight = self.embed_tokens.weight
        self.freqs_cis = precompute_freqs_cis(d // config.num_attention_heads, config.max_position_embeddings,
                                              config.rope_theta)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        f = self.freqs_cis[: input_ids.size(1)].to(x.device)
        for a, m, n1, n2 in zip(self.attn, self.mlp, self.n1, self.n2):
            x = x + a(n1(x), f)
            x = x + m(n2(x))
        return self.lm_head(self.norm(x))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(440)
        net = MusicLM(MusicConfig())
        nn.init.normal_(net.embed_tokens.weight, std=0.05)
    return net.eval()
