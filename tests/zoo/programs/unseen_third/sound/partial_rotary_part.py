"""GPT-NeoX block (parallel residual, partial rotary)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class NeoXConfig:
    hidden_size = 64
    num_attention_heads = 4
    rotary_pct = 0.25
    rotary_emb_base = 10000
    vocab_size = 73
    num_hidden_layers = 2


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class GPTNeoXAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.num_heads = config.num_attention_heads
        self.head_size = config.hidden_size // self.num_heads
        self.rotary_ndims = int(self.head_size * config.rotary_pct)
        inv = 1.0 / config.rotary_emb_base ** (torch.arange(0, self.rotary_ndims, 2).float() / self.rotary_ndims)
        self.register_buffer("inv_freq", inv, persistent=False)
        self.query_key_value, self.dense = nn.Linear(config.hidden_size, 3 * config.hidden_size), nn.Linear(config.hidden_size, config.hidden_size)

    def _rope(self, x):
        r, p = x[..., : self.rotary_ndims], x[..., self.rotary_ndims :]
        ang = torch.arange(x.shape[2])[:, None] * self.inv_freq
        ang = torch.cat((ang, ang), -1)
        return torch.cat((r * ang.cos() + rotate_half(r) * ang.sin(), p), -1)

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.query_key_value(x).view(b, n, self.num_heads, 3 * self.head_size).transpose(1, 2)
        q, k, v = qkv.chunk(3, -1)
        y = F.scaled_dot_product_attention(self._rope(q), self._rope(k), v, is_causal=True)
        return self.dense(y.transpose(1, 2).reshape(b, n, -1))


class NeoX(nn.Module):
    def __init__(self, config=NeoXConfig()):
        super().__init__()
        self.config = config
        d = config.hidden_size
        self.embed_in = nn.Embedding(config.vocab_size, d)
        self.att = nn.ModuleList(GPTNeoXAttention(config) for _ in range(config.num_hidden_layers))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * config.num_hidden_layers))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(d, 96), nn.GELU(), nn.Linear(96, d)) for _ in range(config.num_hidden_layers))
        self.embed_out = nn.Linear(d, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.embed_in(input_ids)
        for i, (a, m) in enumerate(zip(self.att, self.mlp)):
            x = x + a(self.ln[2 * i](x)) + m(self.ln[2 * i + 1](x))
        return self.embed_out(x)


torch.manual_seed(0)
model = NeoX().eval()
