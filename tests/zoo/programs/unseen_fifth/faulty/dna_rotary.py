"""Nucleotide language model with rotary embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, n):
        t = torch.arange(n, device=self.inv_freq.device).float()
        freqs = torch.outer(t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)  # fault: AS503
        return emb.cos()[None, None], emb.sin()[None, None]


class Mixer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.rotary = Rotary(d // h)
        self.wq, self.wk, self.wv, self.wo = [nn.Linear(d, d, bias=False) for _ in range(4)]

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = (w(x).view(B, L, self.h, D // self.h).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        cos, sin = self.rotary(L)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, L, D))


class NucleotideLM(nn.Module):
    def __init__(self, vocab=6, d=48, h=3, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.mix = nn.ModuleList(Mixer(d, h) for _ in range(depth))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.RMSNorm(d) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.RMSNorm(d) for _ in range(depth))
        self.lm_head = nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for m, f, a, b in zip(self.mix, self.ff, self.n1, self.n2):
            x = x + m(a(x))
            x = x + f(b(x))
        return self.lm_head(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(33)
        return NucleotideLM().eval()


inputs = {"input_ids": torch.randint(0, 6, (2, 19), generator=torch.Generator().manual_seed(34))}
