"""Config driven rotary model; long context base in the config."""
from dataclasses import dataclass
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LongConfig:
    vocab_size: int = 66
    hidden_size: int = 32
    num_attention_heads: int = 2
    num_hidden_layers: int = 2
    rope_theta: float = 500000.0
    max_position_embeddings: int = 128


class Rotary(nn.Module):
    def __init__(self, dim, max_len, base=10000.0):
        super().__init__()
        inv_freq = 1.0 / base ** (torch.arange(0, dim, 2) / dim)
        f = torch.outer(torch.arange(max_len), inv_freq)
        self.register_buffer("ang", torch.cat([f, f], -1), persistent=False)

    def forward(self, x):
        a = self.ang[: x.size(-2)]
        h = x.size(-1) // 2
        return x * a.cos() + torch.cat([-x[..., h:], x[..., :h]], -1) * a.sin()


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n = cfg.num_attention_heads
        self.norm = nn.RMSNorm(cfg.hidden_size)
        self.rotary = Rotary(cfg.hidden_size // self.n, cfg.max_position_embeddings)  # fault: AS306
        self.qkv = nn.Linear(cfg.hidden_size, 3 * cfg.hidden_size, bias=False)
        self.o = nn.Linear(cfg.hidden_size, cfg.hidden_size, bias=False)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.n, -1)).transpose(1, 2) for z in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return x + self.o(y.transpose(1, 2).flatten(2))


class LongModel(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config or LongConfig()
        self.embed_tokens = nn.Embedding(self.config.vocab_size, self.config.hidden_size)
        self.layers = nn.ModuleList([Layer(self.config) for _ in range(self.config.num_hidden_layers)])
        self.lm_head = nn.Linear(self.config.hidden_size, self.config.vocab_size)

    def forward(self, input_ids):
        x = self.embed_tokens(input_ids)
        for l in self.layers:
            x = l(x)
        return self.lm_head(x)


def model():
    torch.manual_seed(11)
    return LongModel().eval()
