"""Causal decoder with embedding, attention and residual dropout, as trained."""

import torch
from torch import nn
import torch.nn.functional as F


class Config:
    vocab_size = 72
    n_ctx = 32
    n_embd = 40
    n_head = 4
    pdrop = 0.1


class Attn(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.nh = cfg.n_head
        self.pdrop = cfg.pdrop
        self.wqkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.wo = nn.Linear(cfg.n_embd, cfg.n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.nh, C // self.nh).unbind(2)
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            dropout_p=self.pdrop if self.training else 0.0,
            is_causal=True,
        )
        return self.wo(out.transpose(1, 2).reshape(B, T, C))


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.pos = nn.Embedding(cfg.n_ctx, cfg.n_embd)
        self.drop = nn.Dropout(cfg.pdrop)
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.attn = Attn(cfg)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)

    def forward(self, ids):
        x = self.drop(self.tok(ids) + self.pos(torch.arange(ids.shape[1])))
        return self.head(x + self.drop(self.attn(self.ln(x))))


with torch.random.fork_rng():
    torch.manual_seed(86)
    model = LM(Config).train()

inputs = {"ids": torch.randint(0, 72, (4, 16), generator=torch.Generator().manual_seed(86))}
