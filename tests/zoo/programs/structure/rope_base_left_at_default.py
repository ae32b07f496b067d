"""Decoder whose rotary angles come from a function with a default base; the config has its own."""

from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


def angles(length, width, theta=10_000.0):
    exponent = torch.arange(0, width, 2).float() / width
    return torch.outer(torch.arange(length).float(), torch.pow(theta, -exponent))


def turn(x, angle):
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.norm = nn.RMSNorm(cfg.hidden_size)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(cfg.hidden_size, cfg.hidden_size, bias=False) for _ in range(4))

    def forward(self, x, angle):
        b, t, c = x.shape
        y = self.norm(x)
        q, k, v = (w(y).view(b, t, self.cfg.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(turn(q, angle), turn(k, angle), v, is_causal=True)
        return x + self.wo(y.transpose(1, 2).reshape(b, t, c))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Embedding(cfg.vocab_size, cfg.hidden_size)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(2))
        self.head = nn.Linear(cfg.hidden_size, cfg.vocab_size, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        angle = angles(ids.shape[1], self.cfg.hidden_size // self.cfg.heads)  # fault: AS306
        for layer in self.layers:
            x = layer(x, angle)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(51)
    model = Decoder(SimpleNamespace(vocab_size=70, hidden_size=48, heads=3, rope_theta=1_000_000.0)).eval()
inputs = torch.randint(0, 70, (2, 12), generator=torch.Generator().manual_seed(51))
expect = {"causal": True}
