"""Llama-like decoder with a key/value cache and grouped queries."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Args:
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    vocab_size: int = 51
    theta: float = 10000.0


def rotate(x, start, theta):
    d = x.size(-1)
    freq = theta ** (-torch.arange(0, d, 2).float() / d)
    ang = torch.outer(torch.arange(start, start + x.size(2)).float(), freq)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()], -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.hd = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(args.n_heads * self.hd, args.dim, bias=False)

    def forward(self, x, past):
        b, t, _ = x.shape
        start = 0 if past is None else past[0].size(2)
        q = rotate(self.wq(x).view(b, t, -1, self.hd).transpose(1, 2), start, self.args.theta)
        k = rotate(self.wk(x).view(b, t, -1, self.hd).transpose(1, 2), start, self.args.theta)
        v = self.wv(x).view(b, t, -1, self.hd).transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        keep = torch.ones(t, k.size(2), dtype=torch.bool).tril(start)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)
        return self.wo(out.transpose(1, 2).reshape(b, t, -1)), (k, v)


class Llama(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.attn = nn.ModuleList(Attention(args) for _ in range(args.n_layers))
        self.n1 = nn.ModuleList(nn.RMSNorm(args.dim) for _ in range(args.n_layers))
        self.n2 = nn.ModuleList(nn.RMSNorm(args.dim) for _ in range(args.n_layers))
        self.up = nn.ModuleList(nn.Linear(args.dim, 80, bias=False) for _ in range(args.n_layers))
        self.down = nn.ModuleList(nn.Linear(80, args.dim, bias=False) for _ in range(args.n_layers))
        self.norm = nn.RMSNorm(args.dim)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)

    def forward(self, tokens, past=None):
        h = self.tok_embeddings(tokens)
        present = []
        for i, attn in enumerate(self.attn):
            y, kv = attn(self.n1[i](h), None if past is None else past[i])
            present.append(kv)
            h = h + y
            h = h + self.down[i](F.silu(self.up[i](self.n2[i](h))))
        return self.output(self.norm(h)), present


with torch.random.fork_rng():
    torch.manual_seed(2)
    model = Llama(Args()).eval()

inputs = {"tokens": torch.randint(0, 51, (2, 13), generator=torch.Generator().manual_seed(2))}
expect = {"causal": True, "cache": "past"}
