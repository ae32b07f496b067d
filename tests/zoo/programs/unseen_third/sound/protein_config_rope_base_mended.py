"""Protein model for the Hub (config.json style), rotary base in the config."""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F

CONFIG = json.loads('{"vocab_size": 33, "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "rope_theta": 500.0, "layer_norm_eps": 1e-5}')


class Config:
    def __init__(self, **kw):
        self.__dict__.update(kw)


class RotaryEmb(nn.Module):
    def __init__(self, dim, theta=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self, n):
        f = torch.arange(n).float()[:, None] * self.inv_freq
        return torch.cat([f, f], -1)


def rot(x, e):
    h = x.shape[-1] // 2
    return x * e.cos() + torch.cat([-x[..., h:], x[..., :h]], -1) * e.sin()


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.nh, self.hd = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        self.qkv, self.out = nn.Linear(config.hidden_size, 3 * config.hidden_size), nn.Linear(config.hidden_size, config.hidden_size)
        self.rotary = RotaryEmb(self.hd, config.rope_theta)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.nh, self.hd).permute(2, 0, 3, 1, 4)
        e = self.rotary(n)
        y = F.scaled_dot_product_attention(rot(q, e), rot(k, e), v)
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class ProteinModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.attn = nn.ModuleList([Attention(config) for _ in range(config.num_hidden_layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) for _ in range(config.num_hidden_layers)])

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for a, n in zip(self.attn, self.ln):
            x = x + a(n(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(113)
    model = ProteinModel(Config(**CONFIG)).eval()
