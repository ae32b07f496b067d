"""Phi-ish model: config file, rotary embedding class, one decoder."""
import json
import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG_JSON = '{"vocab_size": 81, "hidden_size": 48, "num_heads": 4, "num_layers": 2, "rope_theta": 500000.0, "max_position_embeddings": 64}'


class Config:
    def __init__(self, **kw):
        self.__dict__.update(kw)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=2048, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        t = torch.arange(max_position_embeddings).float()
        emb = torch.cat([torch.outer(t, inv_freq)] * 2, dim=-1)
        self.register_buffer("cos", emb.cos(), persistent=False)
        self.register_buffer("sin", emb.sin(), persistent=False)

    def forward(self, x):
        n, h = x.shape[-2], x.shape[-1] // 2
        rot = torch.cat((-x[..., h:], x[..., :h]), -1)
        return x * self.cos[:n] + rot * self.sin[:n]


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.nh = config.num_heads
        self.qkv, self.dense = nn.Linear(config.hidden_size, 3 * config.hidden_size), nn.Linear(config.hidden_size, config.hidden_size)
        self.rotary_emb = RotaryEmbedding(config.hidden_size // self.nh, config.max_position_embeddings)  # fault: AS306

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.nh, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = self.rotary_emb(q), self.rotary_emb(k)  # fault: AS306
        return self.dense(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))


class Phi(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([Attention(config) for _ in range(config.num_layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(config.hidden_size) for _ in range(config.num_layers)])
        self.mlps = nn.ModuleList([nn.Sequential(nn.Linear(config.hidden_size, 96), nn.GELU(), nn.Linear(96, config.hidden_size)) for _ in range(config.num_layers)])
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for a, n, m in zip(self.layers, self.norms, self.mlps):
            y = n(x)
            x = x + a(y) + m(y)
        return self.lm_head(x)


torch.manual_seed(0)
model = Phi(Config(**json.loads(CONFIG_JSON))).eval()
