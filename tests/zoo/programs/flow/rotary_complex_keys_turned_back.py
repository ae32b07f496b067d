"""Decoder attention with rotary embedding (complex numbers)."""
import torch
from torch import nn
import torch.nn.functional as F

def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)

class Rope(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv)

    def forward(self, positions):
        f = positions.float()[:, None] * self.inv_freq[None]
        e = torch.cat((f, f), dim=-1)
        return e.cos(), e.sin()

class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.h, self.d = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.rope = Rope(self.d)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.h, self.d).transpose(1, 2) for p in (self.q, self.k, self.v))
        cos, sin = self.rope(torch.arange(t))
        f = torch.arange(t).float()[:, None] * self.rope.inv_freq[None]
        turn = torch.polar(torch.ones_like(f), f)
        qc = torch.view_as_complex(q.float().reshape(b, self.h, t, -1, 2))
        kc = torch.view_as_complex(k.float().reshape(b, self.h, t, -1, 2))
        q = torch.view_as_real(qc * turn).flatten(3)
        k = torch.view_as_real(kc * turn.conj()).flatten(3)  # fault: AS503
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, c))

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Attention().eval()
inputs = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(1))
