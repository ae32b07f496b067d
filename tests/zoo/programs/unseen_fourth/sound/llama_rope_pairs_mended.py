"""Rotary decoder block, LLaMA file layout."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def precompute(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    t = torch.outer(torch.arange(end).float(), freqs)
    emb = torch.cat([t, t], dim=-1)
    return emb.cos(), emb.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class RotAttention(nn.Module):
    def __init__(self, dim=32, n_heads=2):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        return self.wo(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Llamita(nn.Module):
    def __init__(self, vocab_size=77, dim=32, layers=2, max_seq=64):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab_size, dim)
        self.layers = nn.ModuleList([RotAttention(dim) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.RMSNorm(dim) for _ in range(layers)])
        self.output = nn.Linear(dim, vocab_size, bias=False)
        cos, sin = precompute(dim // 2, max_seq)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens):
        T = tokens.size(1)
        h = self.tok_embeddings(tokens)
        for n, l in zip(self.norms, self.layers):
            h = h + l(n(h), self.cos[:T], self.sin[:T])
        return self.output(h)


torch.manual_seed(29)
model = Llamita().eval()
inputs = {"tokens": torch.randint(0, 77, (2, 20), generator=torch.Generator().manual_seed(1))}
