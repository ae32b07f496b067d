"""Genome model with rotary attention, tensors kept as (batch, length, heads, width)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim, base=10_000):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, seq_dim):
        t = torch.arange(x.shape[seq_dim], device=x.device).float()
        ang = torch.cat([torch.outer(t, self.inv_freq)] * 2, -1)
        shape = [1] * x.ndim
        shape[seq_dim], shape[-1] = ang.shape
        cos, sin = ang.cos().view(shape), ang.sin().view(shape)
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin


class GenomeAttention(nn.Module):
    def __init__(self, d=48, heads=6):
        super().__init__()
        self.heads, self.rot = heads, Rotary(d // heads)
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)

    def forward(self, x):
        b, l, d = x.shape
        q, k, v = self.wqkv(x).view(b, l, 3, self.heads, -1).unbind(2)
        q, k = self.rot(q, seq_dim=2), self.rot(k, seq_dim=2)  # fault: AS503|AS502
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return self.wo(o.transpose(1, 2).reshape(b, l, d))


class Genome(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(6, 48)
        self.a = nn.ModuleList([GenomeAttention() for _ in range(2)])
        self.n = nn.ModuleList([nn.RMSNorm(48) for _ in range(2)])
        self.head = nn.Linear(48, 6)

    def forward(self, dna):
        x = self.emb(dna)
        for a, n in zip(self.a, self.n):
            x = x + a(n(x))
        return self.head(x)


# also: AS501
with torch.random.fork_rng():
    torch.manual_seed(74)
    model = Genome().eval()
inputs = (torch.randint(0, 6, (2, 25), generator=torch.Generator().manual_seed(74)),)
