"""Sliding-window decoder block after Mistral: each token sees itself and window-1 tokens before it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class MistralishConfig:
    hidden_size: int = 32
    num_heads: int = 4
    num_kv_heads: int = 2
    sliding_window: int = 5
    num_layers: int = 2
    vocab_size: int = 45


def sliding_mask(n, window):
    i = torch.arange(n).view(-1, 1)
    j = torch.arange(n).view(1, -1)
    return (j <= i) & (i - j <= window)  # fault: AS210


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.dh = cfg.hidden_size // cfg.num_heads
        self.q = nn.Linear(cfg.hidden_size, cfg.num_heads * self.dh, bias=False)
        self.kv = nn.Linear(cfg.hidden_size, 2 * cfg.num_kv_heads * self.dh, bias=False)
        self.o = nn.Linear(cfg.num_heads * self.dh, cfg.hidden_size, bias=False)

    def forward(self, x, mask):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, -1, self.dh).transpose(1, 2)
        k, v = (t.view(b, n, -1, self.dh).transpose(1, 2) for t in self.kv(x).chunk(2, -1))
        group = self.cfg.num_heads // self.cfg.num_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(b, n, -1))


class Mistralish(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.pos = nn.Embedding(64, config.hidden_size)
        self.attn = nn.ModuleList(Attention(config) for _ in range(config.num_layers))
        self.norm = nn.ModuleList(nn.RMSNorm(config.hidden_size) for _ in range(config.num_layers))
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, ids):
        mask = sliding_mask(ids.shape[1], self.config.sliding_window)
        x = self.embed(ids) + self.pos(torch.arange(ids.shape[1]))
        for attn, norm in zip(self.attn, self.norm):
            x = x + attn(norm(x), mask)
        return self.head(x)


# also: AS306
with torch.random.fork_rng():
    torch.manual_seed(51)
    model = Mistralish(MistralishConfig()).eval()

inputs = {"ids": torch.randint(0, 45, (2, 17), generator=torch.Generator().manual_seed(51))}
expect = {"causal": True, "window": 5}
