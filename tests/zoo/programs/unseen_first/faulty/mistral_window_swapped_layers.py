"""Decoder with alternating local and global layers, sizes from a config."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class WindowConfig:
    vocab_size: int = 43
    d_model: int = 24
    n_heads: int = 2
    windows: list = field(default_factory=lambda: [4, None, 4])


def build_mask(n, window):
    row = torch.arange(n)[:, None]
    col = torch.arange(n)[None, :]
    keep = col <= row
    if window is not None:
        keep = keep & (row - col < window)
    return keep


class LocalAttention(nn.Module):
    def __init__(self, cfg, window):
        super().__init__()
        self.window, self.n_heads = window, cfg.n_heads
        self.qkv = nn.Linear(cfg.d_model, cfg.d_model * 3, bias=False)
        self.o = nn.Linear(cfg.d_model, cfg.d_model, bias=False)

    def forward(self, x):
        n = x.shape[-2]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        keep = build_mask(n, self.window)
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)  # fault: AS210
        return self.o(z.permute(0, 2, 1, 3).flatten(-2))


class Net(nn.Module):
    def __init__(self, cfg: WindowConfig):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(cfg.vocab_size, cfg.d_model), nn.Embedding(50, cfg.d_model)
        self.attn = nn.ModuleList(LocalAttention(cfg, None if w else 4) for w in cfg.windows)
        self.ln = nn.ModuleList(nn.LayerNorm(cfg.d_model) for _ in cfg.windows)
        self.lm = nn.Linear(cfg.d_model, cfg.vocab_size)

    def forward(self, tokens):
        h = self.wte(tokens) + self.wpe.weight[None, : tokens.shape[1]]
        for ln, attn in zip(self.ln, self.attn):
            h = h + attn(ln(h))
        return self.lm(h)


with torch.random.fork_rng():
    torch.manual_seed(2024)
    model = Net(WindowConfig()).eval()
inputs = torch.arange(3 * 16).reshape(3, 16) * 7 % 43
expect = {"causal": True, "window": [4, None, 4]}
