"""Decoder with complex-number rotary embedding and multi-query attention."""

import torch
from torch import nn
import torch.nn.functional as F


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    return torch.polar(torch.ones(end, dim // 2), torch.outer(t, freqs))


def apply_rotary(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None]).flatten(3).type_as(x)


class MultiQueryAttention(nn.Module):
    def __init__(self, dim, n_heads, max_len):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * self.hd, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.freqs_cis = precompute_freqs_cis(self.hd, max_len)

    def keys_values(self, x):
        k, v = self.wkv(x).unflatten(-1, (2, 1, self.hd)).unbind(2)
        return apply_rotary(k, self.freqs_cis[: x.shape[1]]), v

    def forward(self, x):
        b, t, c = x.shape
        xq = self.wq(x).view(b, t, self.n_heads, self.hd)
        xk, xv = self.keys_values(x)
        freqs_cis = self.freqs_cis[:t]
        xq = apply_rotary(xq, freqs_cis)
        xk, xv = xk.expand(-1, -1, self.n_heads, -1), xv.expand(-1, -1, self.n_heads, -1)
        y = F.scaled_dot_product_attention(
            xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2), is_causal=True
        )
        return self.wo(y.transpose(1, 2).reshape(b, t, c))


class Decoder(nn.Module):
    def __init__(self, vocab=55, dim=48, n_heads=6, layers=2, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.attn = nn.ModuleList(MultiQueryAttention(dim, n_heads, max_len) for _ in range(layers))
        self.norm = nn.ModuleList(nn.RMSNorm(dim) for _ in range(layers))
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.tok(tokens)
        for norm, attn in zip(self.norm, self.attn):
            h = h + attn(norm(h))
        return self.output(h)


with torch.random.fork_rng():
    torch.manual_seed(19)
    model = Decoder().eval()

inputs = torch.randint(0, 55, (2, 18), generator=torch.Generator().manual_seed(19))
